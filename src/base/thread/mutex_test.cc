#include "base/thread/mutex.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace {

std::atomic<bool> wall_clock_is_set_back = false;

}  // namespace

/// In place of the C library's: a wait until a time of the wall clock lasts an hour too long, as if
/// that was set back once the time was read.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long failed = ::syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME && wall_clock_is_set_back) now->tv_sec += 3600;
  return static_cast<int>(failed);
}

namespace tfos {
namespace {

/// What one thread waits for and another changes.
struct Shared {
  Mutex mutex;
  CondVar changed;
  int value TFOS_GUARDED_BY(mutex) = 0;

  void Set(int to) TFOS_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    value = to;
    changed.NotifyAll();
  }
};

bool IsFree(Mutex& mutex) {
  if (!mutex.TryLock()) return false;
  mutex.Unlock();
  return true;
}

TEST(CondVarTest, WaitsDoNotGoByTheWallClock) {
  Shared shared;
  wall_clock_is_set_back = true;
  const MutexLock lock(shared.mutex);
  EXPECT_FALSE(
      shared.changed.WaitUntil(shared.mutex, Deadline::After(std::chrono::milliseconds(1))));
  EXPECT_TRUE(shared.changed.WaitRound(shared.mutex, {}, "nothing").ok());
  wall_clock_is_set_back = false;
}

TEST(MutexTest, OneThreadAtATimeHoldsIt) {
  Shared shared;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&shared] {
      for (int added = 0; added < 1000; ++added) {
        const MutexLock lock(shared.mutex);
        ++shared.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(shared.mutex);
  EXPECT_EQ(shared.value, 4000);
}

TEST(MutexTest, AScopeMayGiveItUpForAWhile) {
  Shared shared;
  MutexLock lock(shared.mutex);
  shared.value = 1;
  lock.Unlock();
  std::thread([&shared] { shared.Set(2); }).join();
  lock.Lock();
  EXPECT_EQ(shared.value, 2);
}

TEST(MutexTest, AScopeThatGaveItUpLeavesItFree) {
  Shared shared;
  {
    MutexLock lock(shared.mutex);
    lock.Unlock();
  }
  EXPECT_TRUE(IsFree(shared.mutex));
}

TEST(MutexTest, TryingFailsWhileAnotherHoldsIt) {
  Shared shared;
  const MutexLock lock(shared.mutex);
  bool free = true;
  std::thread([&] { free = IsFree(shared.mutex); }).join();
  EXPECT_FALSE(free);
}

TEST(CondVarTest, WaitsUntilTheConditionHolds) {
  Shared shared;
  std::thread setter([&shared] { shared.Set(1); });
  {
    const MutexLock lock(shared.mutex);
    while (shared.value == 0) shared.changed.Wait(shared.mutex);
    EXPECT_EQ(shared.value, 1);
  }
  setter.join();
}

TEST(CondVarTest, SaysWhenTheDeadlineHasPassed) {
  Shared shared;
  const Deadline soon = Deadline::After(std::chrono::milliseconds(1));
  const MutexLock lock(shared.mutex);
  while (shared.changed.WaitUntil(shared.mutex, soon)) {
  }
  EXPECT_TRUE(soon.passed());
}

TEST(CondVarTest, AnInfiniteDeadlineWaitsForTheChange) {
  Shared shared;
  std::thread setter([&shared] { shared.Set(1); });
  {
    const MutexLock lock(shared.mutex);
    while (shared.value == 0) {
      EXPECT_TRUE(shared.changed.WaitUntil(shared.mutex, Deadline::Infinite()));
    }
  }
  setter.join();
}

TEST(CondVarTest, ARoundBeyondTheDeadlineFails) {
  Shared shared;
  const MutexLock lock(shared.mutex);
  const Status status = shared.changed.WaitRound(
      shared.mutex, {.deadline = Deadline::After(Clock::Duration::zero())}, "nothing came");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kRetryLater);
  EXPECT_EQ(status.message(), "nothing came within the deadline");
}

TEST(CondVarTest, ARoundAsksTheCheckWithoutTheMutex) {
  Shared shared;
  bool was_free = false;
  const Wait wait{.check = [&] {
    was_free = IsFree(shared.mutex);
    return Status(ErrorKind::kRetryLater, "interrupted");
  }};
  MutexLock lock(shared.mutex);
  const Status status = shared.changed.WaitRound(shared.mutex, wait, "nothing came");
  EXPECT_TRUE(was_free);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.message(), "interrupted");
  shared.value = 1;  // The round came back with the mutex.
  lock.Unlock();
  std::thread([&shared] { shared.Set(2); }).join();
}

}  // namespace
}  // namespace tfos
