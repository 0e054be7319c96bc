#ifndef TFOS_BASE_TIME_WAIT_METER_H_
#define TFOS_BASE_TIME_WAIT_METER_H_

#include <chrono>
#include <cstddef>

#include "base/time/deadline.h"

namespace tfos {

/// How long all who wait for something have waited, added up. A wait counts while it goes on, and
/// not only once it is over, so a long one is seen at once.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none.
class WaitMeter {
 public:
  /// How many wait from now on.
  void Set(std::size_t waiting, Clock::TimePoint now) {
    total_ = Total(now);
    waiting_ = waiting;
    since_ = now;
  }
  void Begin(Clock::TimePoint now) { Set(waiting_ + 1, now); }
  void End(Clock::TimePoint now) { Set(waiting_ - 1, now); }

  /// It only grows.
  std::chrono::nanoseconds Total(Clock::TimePoint now) const {
    return total_ + static_cast<std::chrono::nanoseconds::rep>(waiting_) *
                        std::chrono::nanoseconds(now - since_);
  }

 private:
  std::size_t waiting_ = 0;
  Clock::TimePoint since_;
  std::chrono::nanoseconds total_{0};
};

}  // namespace tfos

#endif  // TFOS_BASE_TIME_WAIT_METER_H_
