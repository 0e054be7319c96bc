#include "base/thread/mutex.h"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "base/format.h"

namespace tfos {

CondVar::CondVar() {
  // Nothing of this fails in glibc.
  pthread_condattr_t by_monotonic_clock;
  ::pthread_condattr_init(&by_monotonic_clock);
  ::pthread_condattr_setclock(&by_monotonic_clock, CLOCK_MONOTONIC);
  ::pthread_cond_init(&changed_, &by_monotonic_clock);
  ::pthread_condattr_destroy(&by_monotonic_clock);
}

void CondVar::Wait(Mutex& mutex) { ::pthread_cond_wait(&changed_, mutex.mutex_.native_handle()); }

void CondVar::WaitFor(Mutex& mutex, Clock::Duration time) {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  using std::chrono::seconds;
  // The steady clock is the monotonic one.
  const nanoseconds until = std::chrono::steady_clock::now().time_since_epoch() + time;
  const auto whole = duration_cast<seconds>(until);
  const timespec at = {.tv_sec = whole.count(), .tv_nsec = (until - whole).count()};
  ::pthread_cond_timedwait(&changed_, mutex.mutex_.native_handle(), &at);
}

bool CondVar::WaitUntil(Mutex& mutex, const Deadline& deadline) {
  if (deadline.infinite()) {
    Wait(mutex);
    return true;
  }
  // Never so far ahead that the clock overflows.
  WaitFor(mutex, std::min<Clock::Duration>(deadline.Remaining(), std::chrono::hours(1)));
  return !deadline.passed();
}

Status CondVar::WaitRound(Mutex& mutex, const tfos::Wait& wait, std::string_view nothing) {
  if (wait.deadline.passed()) {
    return {ErrorKind::kRetryLater, fmt::format("{} within the deadline", nothing)};
  }
  WaitFor(mutex, std::min<Clock::Duration>(wait.deadline.Remaining(), kCheckInterval));
  Status status;
  if (wait.check) {
    mutex.Unlock();
    status = wait.check();
    mutex.Lock();
  }
  return status;
}

}  // namespace tfos
