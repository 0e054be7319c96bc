#include "base/process/process_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "base/process/subprocess.h"
#include "base/time/deadline.h"

namespace tfos {
namespace {

using ::testing::HasSubstr;

TEST(ProcessStateTest, AStoppedProcessIsCalledThat) {
  auto child = Subprocess::Start({.argv = {"/bin/sleep", "600"}});
  ASSERT_TRUE(child.ok());
  (*child)->SignalGroup(SIGSTOP);
  ASSERT_EQ(::waitpid((*child)->pid(), nullptr, WUNTRACED), (*child)->pid());
  const auto state = ReadProcessState((*child)->pid());
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->state, 'T');
  EXPECT_EQ(state->tracer, 0);
  EXPECT_FALSE(state->dumping_core);
  EXPECT_EQ(DescribeStandstill(*state),
            "it is frozen (stopped by SIGSTOP or SIGTSTP; SIGCONT lets it go on)");
}

TEST(ProcessStateTest, OfAProcessThatIsGoneNothingIsKnown) {
  auto child = Subprocess::Start({.argv = {"/bin/true"}});
  ASSERT_TRUE(child.ok());
  const pid_t pid = (*child)->pid();
  ASSERT_TRUE((*child)->Wait(Deadline::Infinite()).ok());
  EXPECT_EQ(ReadProcessState(pid).status().kind(), ErrorKind::kReconnect);
}

TEST(ProcessStateTest, WhatIsKilledIsEndingOnceItsPipesAreClosed) {
  for (int round = 0; round < 50; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(pipe[0]);
      while (true) ::pause();
    }
    ::close(pipe[1]);
    EXPECT_FALSE(IsEnding(child));
    ::kill(child, SIGKILL);
    char none = 0;
    EXPECT_EQ(::read(pipe[0], &none, 1), 0);
    EXPECT_TRUE(IsEnding(child));
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(IsEnding(child));
    ::close(pipe[0]);
  }
}

TEST(ProcessStateTest, ReadsWhatTheKernelWrites) {
  const std::string status =
      "Name:\tState: x\nUmask:\t0022\nState:\tt (tracing stop)\nTracerPid:\t4711\n"
      "CoreDumping:\t0\nThreads:\t3\n";
  const ProcessState traced = ParseProcessState(status, "ptrace_stop");
  EXPECT_EQ(traced.state, 't');
  EXPECT_EQ(traced.tracer, 4711);
  EXPECT_THAT(DescribeStandstill(traced), HasSubstr("it is frozen by a debugger (process 4711)"));

  const ProcessState waiting = ParseProcessState("State:\tD (disk sleep)\n", "nfs_wait");
  EXPECT_THAT(DescribeStandstill(waiting), HasSubstr("in nfs_wait for a disk"));
  EXPECT_THAT(DescribeStandstill(ParseProcessState("State:\tD (disk sleep)\n", "0")),
              HasSubstr("in the kernel for a disk"));

  const ProcessState crashed = ParseProcessState("State:\tD\nCoreDumping:\t1", "");
  EXPECT_TRUE(crashed.dumping_core);
  EXPECT_THAT(DescribeStandstill(crashed), HasSubstr("core dump"));
}

const std::string kStat =
    "12 (a) 9 (name) S 1 12 12 0 -1 4194560 1 2 3 4 250 50 7 8 20 0 1 0 99 1000 10 "
    "18446744073709551615";

TEST(ProcessStatTest, ANameMayLookLikeFields) {
  const auto stat = ParseProcessStat(kStat);
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->name, "a) 9 (name");
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 1);
  EXPECT_EQ(stat->flags, 4194560U);
  EXPECT_DOUBLE_EQ(stat->cpu_seconds, 300.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(stat->rss_bytes, 10 * ::sysconf(_SC_PAGESIZE));
}

TEST(ProcessStatTest, AnyTextIsRead) {
  for (std::size_t bit = 0; bit < kStat.size() * 8; ++bit) {
    std::string flipped = kStat;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const ProcessStat stat = ParseProcessStat(flipped).value_or(ProcessStat{});
    EXPECT_GE(stat.cpu_seconds, 0);
    EXPECT_GE(stat.rss_bytes, 0);
    const auto cut = ParseProcessStat(kStat.substr(0, bit / 8)).value_or(ProcessStat{});
    EXPECT_LE(cut.name.size(), 10U);
  }
  EXPECT_FALSE(ParseProcessStat(")(").has_value());
  EXPECT_FALSE(ParseProcessStat("7 (cut").has_value());
  EXPECT_EQ(ParseProcessStat("7 (cut) S 9")->parent, 9);
  const std::string most = std::to_string(std::numeric_limits<std::int64_t>::max());
  std::string hostile = "7 (hostile) S";
  for (int field = 1; field < 22; ++field) hostile += " " + most;
  EXPECT_GT(ParseProcessStat(hostile)->cpu_seconds, 0);
  EXPECT_GT(ParseProcessStat(hostile)->rss_bytes, 0);
}

TEST(ProcessStatTest, CountsWhatThisProcessUses) {
  constexpr std::size_t kBytes = 64u << 20;
  const auto before = ReadProcessStat("/proc/self");
  ASSERT_TRUE(before.has_value());
  const std::vector<char> touched(kBytes, 1);
  // Until the kernel, which counts in ticks, must have seen some.
  timespec used{};
  do {
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  } while (used.tv_sec == 0 && used.tv_nsec < 200'000'000);
  const auto after = ReadProcessStat("/proc/self");
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->parent, ::getppid());
  EXPECT_GT(after->cpu_seconds, 0.05);
  EXPECT_GE(after->cpu_seconds, before->cpu_seconds);
  EXPECT_GT(after->rss_bytes, before->rss_bytes + static_cast<std::int64_t>(kBytes / 2));
  EXPECT_EQ(touched.back(), 1);
}

TEST(ProcessStatTest, AProcessThatIsGoneHasNone) {
  EXPECT_FALSE(ReadProcessStat("/proc/1073741824").has_value());
}

TEST(ProcessStateTest, TextThatMakesNoSenseIsNoState) {
  for (const char* text : {"", "\n\n", "State", "State:", "State:\t\n", "TracerPid:\tx\n", ":"}) {
    const ProcessState state = ParseProcessState(text, "");
    EXPECT_EQ(state.state, '?') << text;
    EXPECT_EQ(state.tracer, 0) << text;
  }
}

}  // namespace
}  // namespace tfos
