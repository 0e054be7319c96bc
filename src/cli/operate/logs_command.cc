#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
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
#include "control/agent/child/output_log.h"
#include "control/messages/agent_messages.h"
#include "control/messages/parts/message_text.h"

namespace tfos::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWait(10'000);            // for more output
constexpr milliseconds kAnswerPatience(30'000);  // beyond that

constexpr int kMostLines = 1'000'000;

/// Five answers hold all that an agent keeps. A node may write faster than they come, without end.
constexpr int kMostQuestions = 16;

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

std::ptrdiff_t LinesIn(const std::string& text) {
  return std::ranges::count(text, '\n') + (text.empty() || text.back() == '\n' ? 0 : 1);
}

/// The last lines that stand before `end` or follow it, or all that the agent keeps of them. It
/// takes several answers, and the node may write meanwhile, so that the agent drops what was to
/// come next.
Result<control::Answer> AskForMany(const ClusterAccess& cluster, int node, std::int64_t end,
                                   int lines) {
  control::Answer all;
  const auto is_enough = [&all, end, lines] {
    if (all.next < end) return false;
    // One line more, as the first may lack its beginning.
    return LinesIn(all.text) > lines || all.text.size() >= control::OutputLog::kKeptBytes;
  };
  for (int asked = 0; asked < kMostQuestions && !all.ended && !is_enough(); ++asked) {
    TFOS_ASSIGN_OR_RETURN(
        const control::Answer next,
        AskForOutput(cluster, fmt::format("node={}&after={}", node, all.next), milliseconds(0)));
    // That was all. Or another node may have come in its place, and has written less.
    if (next.next <= all.next) break;
    if (next.from > all.next) {
      all.from = next.from;
      all.text.clear();
    }
    all.text += next.text;
    all.next = next.next;
    all.ended = next.ended;
  }
  return all;
}

/// The last lines, or as many as are kept.
Result<control::Answer> AskForLast(const ClusterAccess& cluster, int node, int lines) {
  TFOS_ASSIGN_OR_RETURN(
      control::Answer last,
      AskForOutput(cluster, fmt::format("node={}&lines={}", node, lines), milliseconds(0)));
  if (!last.ended) {
    if (last.from == 0 || LinesIn(last.text) >= lines) return last;
    TFOS_ASSIGN_OR_RETURN(last, AskForMany(cluster, node, last.next, lines));
  }
  // What is kept may begin within a line.
  if (last.from > 0) last.text.erase(0, last.text.find('\n') + 1);
  std::size_t start = 0;
  for (auto surplus = LinesIn(last.text) - lines; surplus > 0; --surplus) {
    start = std::min(last.text.find('\n', start), last.text.size() - 1) + 1;
  }
  last.text.erase(0, start);
  return last;
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
  const auto last = AskForLast(*cluster, *node, options.lines);
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
