#include "control/messages/progress/silence.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/format.h"
#include "control/messages/parts/metric_names.h"

namespace tfos::control {

namespace {

/// A shorter wait is not worth a word.
constexpr double kLongWaitSeconds = 1;

/// Of a node's time. One that waits longer for others is held up by them.
constexpr double kMostly = 0.5;

/// "1:10", "2:00:05".
std::string ClockText(double seconds) {
  constexpr std::int64_t kMinute = 60;
  const auto all = static_cast<std::int64_t>(seconds);
  const std::int64_t minutes = all / kMinute;
  if (minutes < kMinute) return fmt::format("{}:{:02}", minutes, all % kMinute);
  return fmt::format("{}:{:02}:{:02}", minutes / kMinute, minutes % kMinute, all % kMinute);
}

/// What a node has too much of: seconds, 0 if all is well.
using Seconds = double (*)(const NodeInfo& node, const Metrics& metrics);

struct Longest {
  const NodeInfo* node = nullptr;
  double seconds = 0;
  std::size_t count = 0;  ///< Of all that have any.

  /// "worker:1 and 2 others".
  std::string Names() const {
    const std::string others =
        count == 1 ? "" : fmt::format(" and {} other{}", count - 1, count == 2 ? "" : "s");
    return fmt::format("{}:{}{}", node->job_name, node->task_index, others);
  }
};

Longest LongestAmong(const std::vector<NodeView>& nodes, Seconds seconds_of) {
  Longest longest;
  for (const NodeView& node : nodes) {
    const double seconds = seconds_of(*node.info, *node.metrics);
    if (seconds <= 0) continue;
    ++longest.count;
    if (seconds <= longest.seconds) continue;
    longest.seconds = seconds;
    longest.node = node.info;
  }
  return longest;
}

double SecondsOf(const NodeInfo& node, const Metrics& metrics, const char* name) {
  if (IsFinal(node.state)) return 0;
  return std::max(0.0, NumberOf(metrics, name).value_or(0));
}

}  // namespace

bool WaitsForOthers(const Metrics& metrics) {
  return NumberOf(metrics, KnownName("share_waiting_for_nodes")).value_or(0) >= kMostly;
}

double SecondsSilent(const NodeInfo& node, const Metrics& metrics) {
  return SecondsOf(node, metrics, KnownName("seconds_without_answer"));
}

double SecondsWithoutStep(const NodeInfo& node, const Metrics& metrics) {
  return SecondsOf(node, metrics, KnownName("seconds_without_step"));
}

std::string DoingOf(const NodeInfo& node, const Metrics& metrics) {
  const bool waits = node.state == NodeState::kRunning && node.feed.has_value() &&
                     NumberOf(metrics, KnownName("feed_chunks")) == 0 &&
                     NumberOf(metrics, KnownName("feed_node_wait_seconds")) >= kLongWaitSeconds;
  if (waits) return "waiting for the first rows";
  const bool begins = node.state == NodeState::kRunning && node.feed.has_value() &&
                      node.detail.empty() && NumberOf(metrics, KnownName("rows")) == 0 &&
                      NumberOf(metrics, KnownName("step")).value_or(0) <= 0;
  return begins ? "no row read yet" : node.detail;
}

std::string DoingWithSilence(const NodeInfo& node, const Metrics& metrics) {
  const std::string doing = DoingOf(node, metrics);
  std::string wrong;
  if (const double silent = SecondsSilent(node, metrics); silent > 0) {
    wrong = fmt::format("no sign of life for {:.0f} s", silent);
  } else if (const double stopped = SecondsWithoutStep(node, metrics); stopped > 0) {
    wrong = fmt::format("no step for {}{}", ClockText(stopped),
                        WaitsForOthers(metrics) ? ", waits for other nodes" : "");
  }
  return wrong + (wrong.empty() || doing.empty() ? "" : "; ") + doing;
}

std::string SilenceAmong(const std::vector<NodeView>& nodes) {
  const Longest longest = LongestAmong(nodes, SecondsSilent);
  if (longest.node == nullptr) return "";
  return fmt::format("no sign of life on {} for {:.0f} s", longest.Names(), longest.seconds);
}

std::string StuckAmong(const std::vector<NodeView>& nodes) {
  std::vector<NodeView> own;
  std::ranges::copy_if(nodes, std::back_inserter(own),
                       [](const NodeView& node) { return !WaitsForOthers(*node.metrics); });
  Longest longest = LongestAmong(own, SecondsWithoutStep);
  if (longest.node == nullptr) longest = LongestAmong(nodes, SecondsWithoutStep);
  if (longest.node == nullptr) return "";
  return fmt::format("no step on {} for {}", longest.Names(), ClockText(longest.seconds));
}

}  // namespace tfos::control
