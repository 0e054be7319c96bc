#include "control/messages/parts/metrics.h"

#include <cmath>
#include <cstdint>

namespace tfos::control {

bool IsForgottenBy(const Metrics& heartbeat, const KnownMetric& metric) {
  if (heartbeat.contains(std::string(metric.name))) return false;
  if (metric.in_each_heartbeat) return true;
  if (!metric.while_it_answers) return false;
  const auto silence = heartbeat.find(KnownName("seconds_without_answer"));
  if (silence == heartbeat.end()) return false;
  const auto* const whole = std::get_if<std::int64_t>(&silence->second);
  const auto* const real = std::get_if<double>(&silence->second);
  return (whole != nullptr && *whole > 0) || (real != nullptr && *real > 0);
}

std::optional<double> NumberOf(const Metrics& metrics, const char* name) {
  const auto found = metrics.find(name);
  if (found == metrics.end()) return std::nullopt;
  std::optional<double> number;
  if (const auto* real = std::get_if<double>(&found->second)) number = *real;
  if (const auto* whole = std::get_if<std::int64_t>(&found->second)) {
    number = static_cast<double>(*whole);
  }
  return number.has_value() && std::isfinite(*number) ? number : std::nullopt;
}

}  // namespace tfos::control
