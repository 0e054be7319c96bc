#include "base/profile/native_stacks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/process/process_state.h"
#include "base/process/subprocess.h"
#include "base/process/unique_fd.h"

namespace tfos {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kMostBytes = 1u << 20;

Deadline Soon() { return Deadline::After(std::chrono::seconds(20)); }

/// native_stacks_program, with threads of these kinds. At its end none may have been disturbed.
class Program {
 public:
  explicit Program(std::vector<std::string> kinds) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    UniqueFd read(ends[0]);
    let_go_.Reset(ends[1]);
    SubprocessOptions options{.argv = {NATIVE_STACKS_PROGRAM, std::to_string(read.get())},
                              .keep_fds = {read.get()},
                              .capture_output = true};
    std::ranges::copy(kinds, std::back_inserter(options.argv));
    auto started = Subprocess::Start(options);
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    process_ = std::move(started).value();
    std::istringstream line(ReadLine());
    for (pid_t number = 0; line >> number;) threads.push_back(number);
    EXPECT_EQ(threads.size(), kinds.size());
  }
  ~Program() {
    let_go_.Reset();
    const auto exit = process_->Wait(Soon());
    EXPECT_TRUE(exit.ok() && exit->success()) << (exit.ok() ? exit->Describe() : "it hangs");
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return process_->pid(); }

  std::vector<pid_t> threads;

 private:
  std::string ReadLine() {
    std::string line;
    while (!line.ends_with('\n')) {
      char byte = 0;
      const ssize_t got = ::read(process_->output().get(), &byte, 1);
      if (got == 0) break;
      if (got == 1) line += byte;
      if (got < 0) std::this_thread::yield();
    }
    return line;
  }

  UniqueFd let_go_;
  std::unique_ptr<Subprocess> process_;
};

/// Without the thread that waits for the others.
NativeStacks Take(const Program& program) {
  auto taken = TakeNativeStacks(program.pid(), Soon());
  EXPECT_TRUE(taken.ok()) << taken.status().ToString();
  if (!taken.ok()) return {};
  std::erase_if(taken->threads, [&](const NativeStack& stack) {
    return std::ranges::count(program.threads, stack.thread) == 0;
  });
  return *std::move(taken);
}

/// Once this is in it.
std::string TextOf(const Program& program, const std::string& wait_for) {
  const Deadline deadline = Soon();
  std::string text;
  while (!deadline.passed()) {
    text = DescribeNativeStacks(Take(program), Soon(), kMostBytes);
    if (text.find(wait_for) != std::string::npos) return text;
    std::this_thread::yield();
  }
  ADD_FAILURE() << wait_for << " is not in:\n" << text;
  return text;
}

TEST(NativeStacksTest, AThreadIsInTheFunctionThatItWaitsIn) {
  const Program program({"wait"});
  const std::string text = TextOf(program, "WaitInKnownFunction");
  EXPECT_THAT(text, HasSubstr("thread " + std::to_string(program.threads[0]) + " '"));
  EXPECT_THAT(text, ContainsRegex("  WaitInKnownFunction \\(native_stacks_program\\)\n  .*read"));
  EXPECT_THAT(text, Not(HasSubstr("earlier calls"))) << "from the thread's first call on";
}

TEST(NativeStacksTest, PythonsCallsAndThoseAroundThemAreLeftOut) {
  const Program program({"python"});
  const std::string text = TextOf(program, "WaitInKnownFunction");
  EXPECT_THAT(text, HasSubstr("  ... Python, see above ...\n  WaitInKnownFunction"));
  EXPECT_THAT(text, Not(HasSubstr("_PyEval")));
}

TEST(NativeStacksTest, ANameOfAThreadMovesNoCursor) {
  const Program program({"name"});
  EXPECT_THAT(TextOf(program, "WaitInKnownFunction"), HasSubstr(" 'a [2J':\n"));
}

TEST(NativeStacksTest, OfADeepStackTheLatestCallsAreShown) {
  const Program program({"deep"});
  const std::string text = TextOf(program, "WaitInKnownFunction");
  EXPECT_THAT(text, HasSubstr("  ... earlier calls are left out ...\n  WaitDeepDown "));
}

TEST(NativeStacksTest, OneThatRunsIsShownToo) {
  const Program program({"spin"});
  EXPECT_THAT(TextOf(program, "SpinInKnownFunction"), Not(HasSubstr("earlier calls")));
}

TEST(NativeStacksTest, FramesOfAnySizeAreFollowed) {
  const Program program({"room"});
  const std::string text = TextOf(program, "WaitInKnownFunction");
  EXPECT_THAT(text, HasSubstr("  WaitWithRoom (native_stacks_program)\n  WaitInKnownFunction"));
  EXPECT_THAT(text, Not(HasSubstr("earlier calls")));
}

TEST(NativeStacksTest, CallsGoThroughOtherLibraries) {
  const Program program({"sort"});
  EXPECT_THAT(TextOf(program, "WaitInKnownFunction"),
              ContainsRegex("  SortInKnownFunction .*\n(  .*libc.*\n)+  CompareInKnownFunction .*\n"
                            "  WaitInKnownFunction "));
}

TEST(NativeStacksTest, CallsGoThroughAHandlerOfASignal) {
  const Program program({"raise"});
  EXPECT_THAT(TextOf(program, "WaitInKnownFunction"),
              ContainsRegex("  RaiseInKnownFunction .*\n(  .*libc.*\n)+  HandleInKnownFunction .*\n"
                            "  WaitInKnownFunction "));
}

#if defined(__x86_64__)
TEST(NativeStacksTest, WhatCallsCodeThatWasMadeAtRunTimeIsNotKnown) {
  const Program program({"made"});
  // The code may be made after the map was read.
  const std::string calls = "  code that was made at run time\n  WaitInKnownFunction ";
  EXPECT_THAT(TextOf(program, calls), HasSubstr("  ... earlier calls are not known ...\n" + calls));
}

TEST(NativeStacksTest, NothingIsWrittenWhereAStackPointerIs) {
  const Program program({"off", "off"});
  TextOf(program, "2 threads (");
  for (int i = 0; i < 200; ++i) Take(program);
  EXPECT_THAT(TextOf(program, "made at run time"),
              HasSubstr("  ... earlier calls are not known ...\n  code that was made"));
}
#endif

TEST(NativeStacksTest, NobodyIsDisturbed) {
  const Program program({"compute", "poll", "semaphore", "sleep", "pause", "wait", "ends"});
  std::vector<std::chrono::nanoseconds> stood;
  for (int i = 0; i < 200; ++i) {
    for (const NativeStack& stack : Take(program).threads) stood.push_back(stack.stood);
  }
  EXPECT_EQ(stood.size(), 200u * 7);
  std::ranges::sort(stood);
  for (const std::size_t percent : {50, 90, 99}) {
    const auto time = stood[stood.size() * percent / 100];
    RecordProperty("stood_us_" + std::to_string(percent), static_cast<int>(time.count() / 1000));
  }
}

TEST(NativeStacksTest, AProcessThatIsFrozenStaysSo) {
  const Program program({"wait", "spin"});
  TextOf(program, "WaitInKnownFunction");
  ASSERT_EQ(::kill(program.pid(), SIGSTOP), 0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(program.pid()), &info, WSTOPPED | WNOWAIT), 0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(DescribeNativeStacks(Take(program), Soon(), kMostBytes),
                AllOf(HasSubstr("WaitInKnownFunction"), HasSubstr("SpinInKnownFunction")));
  }
  // Its threads go back to where they were, one after the other.
  const Deadline deadline = Soon();
  const auto state = [&] { return ReadProcessState(program.pid())->state; };
  while (state() != 'T' && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(state(), 'T');
  ::kill(program.pid(), SIGCONT);
}

TEST(NativeStacksTest, OneThatCannotBeInterruptedIsLeftAlone) {
  const Program program({"child"});
  const std::string text = TextOf(program, "not known");
  EXPECT_THAT(text, HasSubstr("not known: it waits in the kernel, and can't be interrupted"));
}

TEST(NativeStacksTest, OneThatADebuggerHasIsLeftToIt) {
  const Program program({"wait", "wait"});
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, program.threads[0], nullptr, nullptr), 0);
  const std::string text = TextOf(program, "WaitInKnownFunction");
  EXPECT_THAT(text, HasSubstr("not known: a debugger (process " +
                              std::to_string(::syscall(SYS_gettid)) + ") has it"));
  ::ptrace(PTRACE_INTERRUPT, program.threads[0], nullptr, nullptr);
  EXPECT_EQ(::waitpid(program.threads[0], nullptr, __WALL), program.threads[0]);
  ::ptrace(PTRACE_DETACH, program.threads[0], nullptr, nullptr);
}

TEST(NativeStacksTest, WhereTheKernelRefusesTheTextSaysWhatHelps) {
  const Program program({"wait"});
  std::string text;
  // As in a container. It holds for this thread and those that it starts.
  std::thread([&] {
    std::array<sock_filter, 4> filter = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog rules{.len = filter.size(), .filter = filter.data()};
    ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &rules), 0);
    text = NativeStacksText(program.pid(), kMostBytes);
  }).join();
  EXPECT_THAT(text,
              HasSubstr("the kernel does not let tfos look (ptrace: Operation not permitted)"));
  EXPECT_THAT(text, AllOf(HasSubstr("kernel.yama.ptrace_scope"), HasSubstr("SYS_PTRACE")));
}

TEST(NativeStacksTest, FiftyThreadsWithTheSameCallsAreOne) {
  const Program program(std::vector<std::string>(50, "wait"));
  const std::string text = TextOf(program, "\n50 threads (");
  EXPECT_THAT(text, HasSubstr(std::to_string(program.threads[0]) + " "));
  EXPECT_THAT(text, HasSubstr(" ...):\n"));
}

TEST(NativeStacksTest, OfAProcessThatIsNotThereNothingIsKnown) {
  EXPECT_EQ(TakeNativeStacks(0x7fffffff, Soon()).status().kind(), ErrorKind::kReconnect);
  EXPECT_THAT(NativeStacksText(0x7fffffff, kMostBytes), HasSubstr("process 2147483647 has ended"));
}

TEST(NativeStacksTest, AfterTheDeadlineNobodyIsAsked) {
  const Program program({"wait"});
  const auto stacks = TakeNativeStacks(program.pid(), Deadline::After(std::chrono::seconds(0)));
  ASSERT_TRUE(stacks.ok());
  for (const NativeStack& stack : stacks->threads)
    EXPECT_THAT(stack.why_not, HasSubstr("too many"));
}

TEST(NativeStacksTest, ATextIsNoLongerThanItMayBe) {
  NativeStacks stacks;
  for (int i = 0; i < 100; ++i) {
    stacks.threads.push_back({.thread = i, .name = "t", .why_not = "reason " + std::to_string(i)});
  }
  const std::string text = DescribeNativeStacks(stacks, Soon(), 500);
  EXPECT_LE(text.size(), 550u);
  EXPECT_THAT(text, AllOf(HasSubstr("reason 0\n"), HasSubstr(" more threads are left out.\n")));
}

}  // namespace
}  // namespace tfos
