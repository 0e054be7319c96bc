#include "base/time/deadline.h"

#include <algorithm>
#include <limits>

namespace tfos {
namespace {

class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace

const Clock& Clock::Steady() {
  static const SteadyClock clock;
  return clock;
}

Deadline Deadline::Infinite(const Clock& clock) { return {clock, Clock::TimePoint::max()}; }

Deadline Deadline::After(Clock::Duration duration, const Clock& clock) {
  const Clock::TimePoint now = clock.Now();
  if (duration >= Clock::TimePoint::max() - now) return Infinite(clock);
  return {clock, now + duration};
}

Clock::Duration Deadline::Remaining() const {
  if (infinite()) return Clock::Duration::max();
  return std::max(at_ - clock_->Now(), Clock::Duration::zero());
}

int Deadline::PollMilliseconds() const {
  if (infinite()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(Remaining()).count();
  return static_cast<int>(std::min<long long>(left, std::numeric_limits<int>::max()));
}

}  // namespace tfos
