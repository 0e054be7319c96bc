#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <variant>

#include "base/format.h"
#include "cli/operate/cluster_access.h"
#include "cli/operate/cluster_view.h"
#include "cli/operate/operate_commands.h"
#include "control/messages/agent_messages.h"
#include "control/messages/parts/message_text.h"

namespace tfos::cli {
namespace {

/// The agent waits for its node for 10 s, and for the native calls for 8 s.
constexpr std::chrono::seconds kStacksPatience(30);

Result<std::string> AskForStacks(const ClusterAccess& cluster, const std::string& name) {
  TFOS_ASSIGN_OR_RETURN(const ClusterView view, ClusterView::Ask(cluster));
  TFOS_ASSIGN_OR_RETURN(const int node, view.NodeNumber(name));
  TFOS_ASSIGN_OR_RETURN(const std::string body,
                        cluster.Post(fmt::format("/v1/stacks?node={}", node), kStacksPatience));
  TFOS_ASSIGN_OR_RETURN(const control::AgentMessage message,
                        control::ParseMessage<control::AgentMessage>(body));
  const auto* answer = std::get_if<control::Answer>(&message);
  if (answer == nullptr) return Status(ErrorKind::kBug, "the coordinator sent no stacks");
  return answer->text;
}

int ShowStacks(const ClusterChoice& choice, const std::string& node) {
  const auto cluster = ClusterAccess::Find(choice);
  if (!cluster.ok()) return Complain("stack", cluster.status());
  const auto text = AskForStacks(*cluster, node);
  if (!text.ok()) return Complain("stack", text.status());
  std::cout << *text << std::flush;
  return kDone;
}

}  // namespace

void AddStackCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "stack", "Print what the threads of a node are doing, in Python and in native code");
  command->footer(
      "For the native calls, each thread is stopped for a moment, which ends a few\n"
      "kinds of system calls early (EINTR): docs/operate.md.");
  const auto choice = std::make_shared<ClusterChoice>();
  const auto node = std::make_shared<std::string>();
  AddNode(*command, *node);
  AddClusterChoice(*command, choice, false);
  command->callback([choice, node, &exit_code] { exit_code = ShowStacks(*choice, *node); });
}

}  // namespace tfos::cli
