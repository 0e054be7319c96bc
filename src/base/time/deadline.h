#ifndef TFOS_BASE_TIME_DEADLINE_H_
#define TFOS_BASE_TIME_DEADLINE_H_

#include <chrono>

namespace tfos {

/// Source of monotonic time, injected so that tests can advance it.
///
/// Threads: implementations are safe to call from any thread.
class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;

  /// The machine's monotonic clock. Lives as long as the process.
  static const Clock& Steady();
};

/// A clock that stands still until a test moves it. Threads: advance from one thread.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  void Advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{};
};

/// The moment by which an operation must be over; shared by all its steps.
///
/// Owner and lifetime: a value; borrows the clock, which must outlive it.
class Deadline {
 public:
  /// Never passes.
  static Deadline Infinite(const Clock& clock = Clock::Steady());
  static Deadline After(Clock::Duration duration, const Clock& clock = Clock::Steady());

  bool infinite() const { return at_ == Clock::TimePoint::max(); }
  bool passed() const { return !infinite() && clock_->Now() >= at_; }
  Clock::TimePoint at() const { return at_; }
  /// Time left, never negative; `Duration::max()` when infinite.
  Clock::Duration Remaining() const;
  /// Time left in milliseconds rounded up, as poll(2) wants it: -1 when infinite.
  int PollMilliseconds() const;
  /// The earlier of the two.
  Deadline Min(const Deadline& other) const { return at_ <= other.at_ ? *this : other; }

 private:
  Deadline(const Clock& clock, Clock::TimePoint at) : clock_(&clock), at_(at) {}

  const Clock* clock_;
  Clock::TimePoint at_;
};

}  // namespace tfos

#endif  // TFOS_BASE_TIME_DEADLINE_H_
