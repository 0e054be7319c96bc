#include "base/thread/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "base/logging.h"

namespace tfos {
namespace {

using testing::HasSubstr;

std::string NameOfThisThread() {
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return name.data();
}

bool IsBlocked(int signal) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return ::sigismember(&blocked, signal) == 1;
}

TEST(StartThreadTest, RunsTheBodyUnderItsName) {
  std::string name;
  auto thread = StartThread("tfos-some-long-name", [&name] { name = NameOfThisThread(); });
  ASSERT_TRUE(thread.ok()) << thread.status().ToString();
  thread->join();
  EXPECT_EQ(name, "tfos-some-long-");
}

TEST(StartThreadTest, SignalsOfTheProgramGoToItsOwnThreads) {
  bool interrupt_blocked = false;
  bool terminate_blocked = false;
  bool fault_blocked = true;
  auto thread = StartThread("tfos-signals", [&] {
    interrupt_blocked = IsBlocked(SIGINT);
    terminate_blocked = IsBlocked(SIGTERM);
    fault_blocked = IsBlocked(SIGSEGV);
  });
  ASSERT_TRUE(thread.ok()) << thread.status().ToString();
  thread->join();
  EXPECT_TRUE(interrupt_blocked);
  EXPECT_TRUE(terminate_blocked);
  EXPECT_FALSE(fault_blocked);
  EXPECT_FALSE(IsBlocked(SIGINT)) << "the caller's own mask is what it was";
}

TEST(StartThreadTest, AnExceptionEndsTheThreadAndIsLogged) {
  testing::internal::CaptureStderr();
  SetUpLogging("test", "INFO");
  auto thread = StartThread("tfos-thrower", [] { throw std::runtime_error("no more tea"); });
  ASSERT_TRUE(thread.ok()) << thread.status().ToString();
  thread->join();
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_THAT(logged, HasSubstr("the thread 'tfos-thrower' ended: no more tea"));
}

TEST(StartThreadTest, AnExceptionOfAnyTypeIsLogged) {
  testing::internal::CaptureStderr();
  SetUpLogging("test", "INFO");
  auto thread = StartThread("tfos-thrower", [] { throw 7; });
  ASSERT_TRUE(thread.ok()) << thread.status().ToString();
  thread->join();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("tfos-thrower"));
}

TEST(StartThreadTest, SaysThatTheProcessMayHaveNoMoreThreads) {
  // A stack larger than any address space fails as a limit on threads does: with EAGAIN.
  pthread_attr_t before;
  ASSERT_EQ(::pthread_getattr_default_np(&before), 0);
  pthread_attr_t huge;
  ASSERT_EQ(::pthread_attr_init(&huge), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 50), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
  bool ran = false;
  auto thread = StartThread("tfos-refused", [&ran] { ran = true; });
  ASSERT_EQ(::pthread_setattr_default_np(&before), 0);
  ::pthread_attr_destroy(&huge);
  ::pthread_attr_destroy(&before);
  if (thread.ok()) thread->join();
  ASSERT_FALSE(thread.ok());
  EXPECT_FALSE(ran);
  EXPECT_EQ(thread.status().kind(), ErrorKind::kNoResources);
  EXPECT_THAT(thread.status().ToString(), HasSubstr("start the thread 'tfos-refused'"));
  EXPECT_FALSE(IsBlocked(SIGINT)) << "the caller's own mask is what it was";
}

}  // namespace
}  // namespace tfos
