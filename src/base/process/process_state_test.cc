#include "base/process/process_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

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

TEST(ProcessStateTest, TextThatMakesNoSenseIsNoState) {
  for (const char* text : {"", "\n\n", "State", "State:", "State:\t\n", "TracerPid:\tx\n", ":"}) {
    const ProcessState state = ParseProcessState(text, "");
    EXPECT_EQ(state.state, '?') << text;
    EXPECT_EQ(state.tracer, 0) << text;
  }
}

}  // namespace
}  // namespace tfos
