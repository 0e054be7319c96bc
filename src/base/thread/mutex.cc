#include "base/thread/mutex.h"

#include <algorithm>

#include "base/format.h"

namespace tfos {

void CondVar::Wait(Mutex& mutex) {
  std::unique_lock lock(mutex.mutex_, std::adopt_lock);
  changed_.wait(lock);
  lock.release();
}

bool CondVar::WaitUntil(Mutex& mutex, const Deadline& deadline) {
  if (deadline.infinite()) {
    Wait(mutex);
    return true;
  }
  std::unique_lock lock(mutex.mutex_, std::adopt_lock);
  // By the deadline's own clock, and never so far ahead that the system's clock overflows.
  changed_.wait_for(lock, std::min<Clock::Duration>(deadline.Remaining(), std::chrono::hours(1)));
  lock.release();
  return !deadline.passed();
}

Status CondVar::WaitRound(Mutex& mutex, const tfos::Wait& wait, std::string_view nothing) {
  if (wait.deadline.passed()) {
    return {ErrorKind::kRetryLater, fmt::format("{} within the deadline", nothing)};
  }
  std::unique_lock lock(mutex.mutex_, std::adopt_lock);
  changed_.wait_for(lock, std::min<Clock::Duration>(wait.deadline.Remaining(), kCheckInterval));
  Status status;
  if (wait.check) {
    lock.unlock();
    status = wait.check();
    lock.lock();
  }
  lock.release();
  return status;
}

}  // namespace tfos
