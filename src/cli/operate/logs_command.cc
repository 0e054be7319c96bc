#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <variant>

#include "base/format.h"
#include "cli/operate/cluster_access.h"
#include "cli/operate/cluster_view.h"
#include "cli/operate/operate_commands.h"
#include "cli/options/bounded_option.h"
#include "control/messages/agent_messages.h"
#include "control/messages/parts/message_text.h"

namespace tfos::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWait(10'000);            // for more output
constexpr milliseconds kAnswerPatience(30'000);  // beyond that

constexpr int kMostLines = 1'000'000;

struct LogsOptions {
  std::string node;
  bool follow = false;
  int lines = 100;
};

Result<control::Answer> AskForOutput(const ClusterAccess& cluster, const std::string& query,
                                     milliseconds wait) {
  TFOS_ASSIGN_OR_RETURN(const std::string body,
                        cluster.Get(fmt::format("/v1/output?{}&wait_ms={}", query, wait.count()),
                                    wait + kAnswerPatience));
  TFOS_ASSIGN_OR_RETURN(const control::AgentMessage message,
                        control::ParseMessage<control::AgentMessage>(body));
  const auto* answer = std::get_if<control::Answer>(&message);
  if (answer == nullptr) return Status(ErrorKind::kBug, "the coordinator sent no output");
  return *answer;
}

/// Prints what follows, until the node has ended.
int Follow(const ClusterAccess& cluster, int node, std::int64_t after) {
  while (true) {
    const auto answer = AskForOutput(cluster, fmt::format("node={}&after={}", node, after), kWait);
    if (!answer.ok() && cluster.HasEnded(answer.status())) {
      std::cerr << "tfos logs: the cluster has ended\n";
      return kDone;
    }
    if (!answer.ok()) return Complain("logs", answer.status());
    if (answer->from > after) {
      std::cout << fmt::format("... {} bytes are left out ...\n", answer->from - after);
    }
    std::cout << answer->text << std::flush;
    // Its reader is gone.
    if (!std::cout) return kFailed;
    after = answer->next;
    if (answer->ended) return kDone;
  }
}

int ShowLogs(const ClusterChoice& choice, const LogsOptions& options) {
  const auto cluster = ClusterAccess::Find(choice);
  if (!cluster.ok()) return Complain("logs", cluster.status());
  const auto view = ClusterView::Ask(*cluster);
  if (!view.ok()) return Complain("logs", view.status());
  const auto node = view->NodeNumber(options.node);
  if (!node.ok()) return Complain("logs", node.status());
  const auto last = AskForOutput(*cluster, fmt::format("node={}&lines={}", *node, options.lines),
                                 milliseconds(0));
  if (!last.ok()) return Complain("logs", last.status());
  std::cout << last->text << std::flush;
  if (!options.follow || last->ended) return kDone;
  return Follow(*cluster, *node, last->next);
}

}  // namespace

void AddLogsCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("logs", "Print what a node has written");
  const auto choice = std::make_shared<ClusterChoice>();
  const auto options = std::make_shared<LogsOptions>();
  AddNode(*command, options->node);
  AddClusterChoice(*command, choice, false);
  command->add_flag("-f,--follow", options->follow, "Go on with what it writes, until it ends");
  AddNumberOption(*command, "-n,--lines", options->lines, "LINES",
                  "How many of the last lines to begin with", 0, kMostLines);
  command->callback([choice, options, &exit_code] { exit_code = ShowLogs(*choice, *options); });
}

}  // namespace tfos::cli
