#include "control/messages/progress/silence.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "base/format.h"
#include "control/messages/parts/metric_names.h"

namespace tfos::control {

namespace {

/// A shorter wait is not worth a word.
constexpr double kLongWaitSeconds = 1;

/// Nothing where the node has not told it, or a text.
std::optional<double> NumberOf(const Metrics& metrics, const char* name) {
  const auto found = metrics.find(name);
  if (found == metrics.end()) return std::nullopt;
  if (const auto* real = std::get_if<double>(&found->second)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&found->second)) {
    return static_cast<double>(*whole);
  }
  return std::nullopt;
}

}  // namespace

double SecondsSilent(const NodeInfo& node, const Metrics& metrics) {
  if (IsFinal(node.state)) return 0;
  const double seconds = NumberOf(metrics, KnownName("seconds_without_answer")).value_or(0);
  return std::isfinite(seconds) && seconds > 0 ? seconds : 0;
}

std::string DoingOf(const NodeInfo& node, const Metrics& metrics) {
  const bool waits = node.state == NodeState::kRunning && node.feed.has_value() &&
                     NumberOf(metrics, KnownName("feed_chunks")) == 0 &&
                     NumberOf(metrics, KnownName("feed_node_wait_seconds")) >= kLongWaitSeconds;
  return waits ? "waiting for the first rows" : node.detail;
}

std::string DoingWithSilence(const NodeInfo& node, const Metrics& metrics) {
  const double seconds = SecondsSilent(node, metrics);
  const std::string doing = DoingOf(node, metrics);
  if (seconds <= 0) return doing;
  return fmt::format("no sign of life for {:.0f} s{}{}", seconds, doing.empty() ? "" : "; ", doing);
}

std::string SilenceAmong(const std::vector<NodeView>& nodes) {
  const NodeInfo* first = nullptr;
  double longest = 0;
  std::size_t count = 0;
  for (const NodeView& node : nodes) {
    const double seconds = SecondsSilent(*node.info, *node.metrics);
    if (seconds <= 0) continue;
    ++count;
    if (seconds <= longest) continue;
    longest = seconds;
    first = node.info;
  }
  if (first == nullptr) return "";
  const std::string others =
      count == 1 ? "" : fmt::format(" and {} other{}", count - 1, count == 2 ? "" : "s");
  return fmt::format("no sign of life on {}:{}{} for {:.0f} s", first->job_name, first->task_index,
                     others, longest);
}

}  // namespace tfos::control
