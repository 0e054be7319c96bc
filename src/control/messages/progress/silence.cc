#include "control/messages/progress/silence.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "base/format.h"
#include "control/messages/parts/metric_names.h"

namespace tfos::control {

double SecondsSilent(const NodeInfo& node, const Metrics& metrics) {
  const auto found = metrics.find(KnownName("seconds_without_answer"));
  if (found == metrics.end() || IsFinal(node.state)) return 0;
  double seconds = 0;
  if (const auto* real = std::get_if<double>(&found->second)) seconds = *real;
  if (const auto* whole = std::get_if<std::int64_t>(&found->second)) {
    seconds = static_cast<double>(*whole);
  }
  return std::isfinite(seconds) && seconds > 0 ? seconds : 0;
}

std::string DoingWithSilence(const NodeInfo& node, const Metrics& metrics) {
  const double seconds = SecondsSilent(node, metrics);
  if (seconds <= 0) return node.detail;
  return fmt::format("no sign of life for {:.0f} s{}{}", seconds, node.detail.empty() ? "" : "; ",
                     node.detail);
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
