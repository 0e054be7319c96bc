#include "control/messages/progress/run_progress.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "base/format.h"

namespace tfos::control {
namespace {

constexpr double kMinute = 60;
constexpr double kHour = 60 * kMinute;
/// From here on a shorter unit says no more than the guess can.
constexpr double kSeveral = 2;
constexpr double kSmall = 0.001;
constexpr double kFew = 10;
constexpr double kMost = 1e15;

/// "1,234".
std::string Whole(double value) {
  if (!(std::abs(value) < kMost)) return fmt::format("{:.3g}", value);
  std::string digits = fmt::format("{:.0f}", std::abs(value));
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return value < 0 && digits != "0" ? "-" + digits : digits;
}

/// The text of a loss, as the driver shows one.
std::string Small(double value) {
  return std::abs(value) >= kSmall ? fmt::format("{:.4f}", value) : fmt::format("{:.3g}", value);
}

std::string Rate(double value) {
  return value < kFew ? fmt::format("{:.1f}", value) : Whole(value);
}

/// "83 s", "12 min", "2 h 5 min".
std::string Duration(double seconds) {
  if (seconds < kSeveral * kMinute) return fmt::format("{:.0f} s", seconds);
  if (seconds < kSeveral * kHour) return fmt::format("{:.0f} min", seconds / kMinute);
  const double minutes = std::round(seconds / kMinute);
  const double hours = std::floor(minutes / kMinute);
  return fmt::format("{} h {:.0f} min", Whole(hours), minutes - hours * kMinute);
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace

std::string ProgressText(const RunProgress& progress) {
  std::vector<std::string> parts;
  if (progress.epoch.has_value()) {
    const std::string of =
        progress.epochs.has_value() ? " of " + Whole(static_cast<double>(*progress.epochs)) : "";
    parts.push_back("epoch " + Whole(static_cast<double>(*progress.epoch)) + of);
  }
  if (progress.step.has_value()) {
    parts.push_back("step " + Whole(static_cast<double>(*progress.step)));
  }
  // Not 100 before the end.
  if (progress.done.has_value()) {
    parts.push_back(fmt::format("{:.0f} %", std::floor(*progress.done * 100)));
  }
  if (progress.left_seconds.has_value())
    parts.push_back(Duration(*progress.left_seconds) + " left");
  if (!progress.bad_loss.empty()) {
    parts.push_back("loss " + progress.bad_loss);
  } else if (progress.loss.has_value()) {
    parts.push_back("loss " + Small(*progress.loss));
  }
  if (progress.rows_per_second.has_value()) {
    parts.push_back(Rate(*progress.rows_per_second) + " rows/s");
  } else if (progress.steps_per_second.has_value()) {
    parts.push_back(Rate(*progress.steps_per_second) + " steps/s");
  }
  if (progress.waits == "nodes") parts.emplace_back("nodes wait for rows");
  if (progress.waits == "spark") parts.emplace_back("Spark waits for nodes");
  if (!progress.nodes.empty()) parts.push_back(progress.nodes);
  if (!progress.silent.empty()) parts.push_back(progress.silent);
  if (!progress.stuck.empty()) parts.push_back(progress.stuck);
  return Joined(parts);
}

}  // namespace tfos::control
