#ifndef TFOS_BASE_TIME_SECONDS_H_
#define TFOS_BASE_TIME_SECONDS_H_

#include <chrono>
#include <cmath>

namespace tfos {

/// The duration of that many seconds, for numbers that a user gave. A number beyond what the
/// machine's clock can count (292 years), infinity among them, is the longest duration that it can;
/// a negative one and one that is not a number are zero.
template <typename Duration = std::chrono::milliseconds>
Duration SaturatingSeconds(double seconds) {
  using std::chrono::nanoseconds;
  constexpr double kMostSeconds = std::chrono::duration<double>(nanoseconds::max()).count();
  if (std::isnan(seconds) || seconds <= 0) return Duration::zero();
  if (seconds >= kMostSeconds) return std::chrono::duration_cast<Duration>(nanoseconds::max());
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace tfos

#endif  // TFOS_BASE_TIME_SECONDS_H_
