#include "base/profile/native_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/process/unique_fd.h"

namespace {

/// For a byte of the pipe. The result of the system call.
ssize_t Read(int fd) {
  char byte = 0;
  return ::read(fd, &byte, 1);
}

}  // namespace

// With names that the linker keeps, and with calls of their own.
extern "C" {
[[gnu::noinline]] ssize_t WaitInKnownFunction(int fd) {
  volatile ssize_t got = Read(fd);
  return got;
}
[[gnu::noinline]] ssize_t WaitDeepDown(int fd, int depth) {
  volatile ssize_t got = depth == 0 ? WaitInKnownFunction(fd) : WaitDeepDown(fd, depth - 1);
  return got;
}
// What the test's own interpreter is called.
[[gnu::noinline]] ssize_t RunPython(int fd) __asm__("_PyEval_EvalFrameDefault");
[[gnu::noinline]] ssize_t RunPython(int fd) {
  volatile ssize_t got = WaitInKnownFunction(fd);
  return got;
}
}

namespace tfos {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kMostBytes = 1u << 20;

Deadline Soon() { return Deadline::After(std::chrono::seconds(20)); }

/// Threads that wait in a function until the object goes. Each must get its byte then.
class Waiters {
 public:
  Waiters(int count, ssize_t (*wait)(int), const sigset_t* blocked = nullptr) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    read_.Reset(ends[0]);
    write_.Reset(ends[1]);
    for (int i = 0; i < count; ++i) {
      std::promise<pid_t> number;
      auto future = number.get_future();
      threads_.emplace_back([this, wait, blocked, &number] {
        if (blocked != nullptr) ::pthread_sigmask(SIG_BLOCK, blocked, nullptr);
        number.set_value(static_cast<pid_t>(::syscall(SYS_gettid)));
        if (wait(read_.get()) != 1) ++failures_;
      });
      numbers.push_back(future.get());
    }
  }
  ~Waiters() {
    const std::string bytes(threads_.size(), 'x');
    EXPECT_EQ(::write(write_.get(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
    for (std::thread& thread : threads_) thread.join();
    EXPECT_EQ(failures_, 0) << "a system call was not restarted";
  }
  Waiters(const Waiters&) = delete;
  Waiters& operator=(const Waiters&) = delete;

  std::vector<pid_t> numbers;

 private:
  UniqueFd read_;
  UniqueFd write_;
  std::atomic<int> failures_ = 0;
  std::vector<std::thread> threads_;
};

/// Of these threads, once all of them wait.
std::string TextOf(const std::vector<pid_t>& threads, const std::string& wait_for) {
  while (true) {
    const auto taken = TakeNativeStacks(Soon());
    EXPECT_TRUE(taken.ok()) << taken.status().ToString();
    if (!taken.ok()) return {};
    std::vector<NativeStack> own;
    for (const NativeStack& stack : *taken) {
      if (std::ranges::count(threads, stack.thread) != 0) own.push_back(stack);
    }
    std::string text = DescribeNativeStacks(own, Soon(), kMostBytes);
    if (text.find(wait_for) != std::string::npos) return text;
    std::this_thread::yield();
  }
}

TEST(NativeStacksTest, AThreadIsInTheFunctionThatItWaitsIn) {
  const Waiters waiters(1, &WaitInKnownFunction);
  const std::string text = TextOf(waiters.numbers, "WaitInKnownFunction");
  EXPECT_THAT(text, HasSubstr("thread " + std::to_string(waiters.numbers[0]) + " '"));
  EXPECT_THAT(text, ContainsRegex("  WaitInKnownFunction \\(native_stacks_test\\)\n"));
  EXPECT_THAT(text, Not(HasSubstr("OnSignal"))) << "the handler's own frames";
}

TEST(NativeStacksTest, PythonsCallsAndThoseAroundThemAreLeftOut) {
  const Waiters waiters(1, &RunPython);
  const std::string text = TextOf(waiters.numbers, "WaitInKnownFunction");
  EXPECT_THAT(text, HasSubstr("  ... Python, see above ...\n  WaitInKnownFunction"));
  EXPECT_THAT(text, Not(HasSubstr("_PyEval")));
}

TEST(NativeStacksTest, ANameOfAThreadMovesNoCursor) {
  const Waiters waiters(1, [](int fd) {
    EXPECT_EQ(::pthread_setname_np(::pthread_self(), "a\x1b[2J"), 0);
    return WaitInKnownFunction(fd);
  });
  EXPECT_THAT(TextOf(waiters.numbers, "WaitInKnownFunction"), HasSubstr(" 'a [2J':\n"));
}

TEST(NativeStacksTest, OfADeepStackTheLatestCallsAreShown) {
  const Waiters waiters(1, [](int fd) { return WaitDeepDown(fd, 1000); });
  const std::string text = TextOf(waiters.numbers, "WaitInKnownFunction");
  EXPECT_THAT(text, HasSubstr("  ... earlier calls are left out ...\n  WaitDeepDown "));
}

TEST(NativeStacksTest, AThreadThatBlocksTheSignalIsNamedAndNotAsked) {
  sigset_t all;
  ::sigfillset(&all);
  const Waiters waiters(1, &WaitInKnownFunction, &all);
  const std::string text = TextOf(waiters.numbers, "thread");
  EXPECT_THAT(text, AllOf(HasSubstr(std::to_string(waiters.numbers[0])),
                          HasSubstr("not known: it blocks signals")));
}

TEST(NativeStacksTest, FiftyThreadsWithTheSameCallsAreOne) {
  const Waiters waiters(50, &WaitInKnownFunction);
  const std::string text = TextOf(waiters.numbers, "\n50 threads (");
  EXPECT_THAT(text, HasSubstr(std::to_string(waiters.numbers[0]) + " "));
  EXPECT_THAT(text, HasSubstr(" ...):\n"));
}

TEST(NativeStacksTest, TwoThatAskAtOnceComeOneAfterTheOther) {
  const Waiters waiters(4, &WaitInKnownFunction);
  const auto ask = [&] {
    for (int i = 0; i < 20; ++i) TextOf(waiters.numbers, "WaitInKnownFunction");
  };
  std::thread other(ask);
  ask();
  other.join();
}

TEST(NativeStacksTest, ASignalThatNobodyWaitsForDoesNothing) {
  ASSERT_TRUE(TakeNativeStacks(Soon()).ok());
  EXPECT_EQ(::raise(SignalOfNativeStacks()), 0);
  const Waiters waiters(1, &WaitInKnownFunction);
  TextOf(waiters.numbers, "WaitInKnownFunction");
}

TEST(NativeStacksTest, AProgramMayHaveTheSignal) {
  struct sigaction before {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SignalOfNativeStacks(), &ignore, &before), 0);
  EXPECT_EQ(TakeNativeStacks(Soon()).status().kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(NativeStacksText(kMostBytes), HasSubstr("the program has taken the signal"));
  ASSERT_EQ(::sigaction(SignalOfNativeStacks(), &before, nullptr), 0);
}

TEST(NativeStacksTest, AfterTheDeadlineNobodyIsAsked) {
  const Waiters waiters(1, &WaitInKnownFunction);
  const auto stacks = TakeNativeStacks(Deadline::After(std::chrono::seconds(0)));
  ASSERT_TRUE(stacks.ok());
  for (const NativeStack& stack : *stacks) EXPECT_THAT(stack.why_not, HasSubstr("too many"));
}

TEST(NativeStacksTest, ATextIsNoLongerThanItMayBe) {
  std::vector<NativeStack> stacks;
  for (int i = 0; i < 100; ++i) {
    stacks.push_back({.thread = i, .name = "t", .why_not = "reason " + std::to_string(i)});
  }
  const std::string text = DescribeNativeStacks(stacks, Soon(), 500);
  EXPECT_LE(text.size(), 550u);
  EXPECT_THAT(text, AllOf(HasSubstr("reason 0\n"), HasSubstr(" more threads are left out.\n")));
}

}  // namespace
}  // namespace tfos
