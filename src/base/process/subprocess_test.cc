#include "base/process/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>

#include "base/format.h"
#include "base/process/pidfd.h"

namespace tfos {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr seconds kLong(30);

SubprocessOptions Shell(std::string script) {
  return {.argv = {"/bin/sh", "-c", std::move(script)}};
}

/// Reads one line from a non-blocking pipe.
std::string ReadLine(const UniqueFd& fd) {
  std::string line;
  const Deadline deadline = Deadline::After(kLong);
  while (!deadline.passed()) {
    char c = 0;
    const ssize_t got = ::read(fd.get(), &c, 1);
    if (got == 1 && c != '\n') line += c;
    if (got == 0 || c == '\n') return line;
    // Readable is what OpenPidfd's wait polls for too.
    if (got < 0) WaitForEnd(fd, deadline);
  }
  return line;
}

TEST(SubprocessTest, ReportsExitCodesAndSignals) {
  auto ended = RunAndCapture(Shell("echo out; echo err >&2; exit 3"), Deadline::After(kLong));
  ASSERT_TRUE(ended.ok()) << ended.status().ToString();
  EXPECT_EQ(ended->exit.Describe(), "exited with code 3");
  EXPECT_EQ(ended->output, "out\nerr\n");

  auto killed = RunAndCapture(Shell("kill -KILL $$"), Deadline::After(kLong));
  ASSERT_TRUE(killed.ok());
  EXPECT_THAT(killed->exit.Describe(), HasSubstr("was killed by SIGKILL (signal 9); the kernel's"));

  auto crashed = RunAndCapture(Shell("kill -SEGV $$"), Deadline::After(kLong));
  ASSERT_TRUE(crashed.ok());
  EXPECT_EQ(crashed->exit.Describe(), "was killed by SIGSEGV (signal 11)");
}

TEST(SubprocessTest, NamesWhatCouldNotBeStarted) {
  auto missing = Subprocess::Start({.argv = {"/no/such/program"}});
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.status().ToString(), HasSubstr("/no/such/program"));
  EXPECT_EQ(missing.status().code().value(), ENOENT);

  auto nowhere = Subprocess::Start({.argv = {"/bin/true"}, .cwd = "/no/such/folder"});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.status().ToString(), HasSubstr("working directory /no/such/folder"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left unreaped";
}

/// Ends this process with 0 if it hears kNoResources where its user may have no more processes.
[[noreturn]] void StartWithoutAProcessToSpare() {
  constexpr uid_t kNobody = 65534;  // The limit is not for root.
  const rlimit none{};
  const bool limited =
      ::setrlimit(RLIMIT_NPROC, &none) == 0 && (::geteuid() != 0 || ::setuid(kNobody) == 0);
  const auto process = Subprocess::Start({.argv = {"/bin/true"}});
  std::fputs(process.status().ToString().c_str(), stderr);
  const bool refused = !process.ok() && process.status().kind() == ErrorKind::kNoResources;
  ::_exit(limited && refused ? 0 : 1);
}

TEST(SubprocessDeathTest, WithoutAProcessToSpareThereAreNoResources) {
  EXPECT_EXIT(StartWithoutAProcessToSpare(), ::testing::ExitedWithCode(0),
              "fork for /bin/true: Resource temporarily unavailable");
}

TEST(SubprocessTest, GivesExactlyTheEnvironmentAndDirectory) {
  SubprocessOptions options = Shell("pwd; echo $ONE; env | grep -c HOME");
  options.environment = {{"ONE=1", "PATH=/usr/bin:/bin"}};
  options.cwd = "/";
  auto run = RunAndCapture(options, Deadline::After(kLong));
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->output, "/\n1\n0\n");
}

TEST(SubprocessTest, FindsTheProgramInTheChildsPath) {
  SubprocessOptions options{.argv = {"sh", "-c", "echo found"}};
  options.environment = {{"PATH=/no/such/folder:/bin:/usr/bin"}};
  auto run = RunAndCapture(options, Deadline::After(kLong));
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  EXPECT_EQ(run->output, "found\n");
}

TEST(SubprocessTest, KeepsOnlyTheNamedDescriptors) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);  // without close-on-exec, as a library may have opened it
  UniqueFd reader(fds[0]);
  UniqueFd writer(fds[1]);
  SubprocessOptions options =
      Shell(fmt::format("for fd in {} {}; do [ -e /proc/$$/fd/$fd ] && echo $fd; done; exit 0",
                        reader.get(), writer.get()));
  options.keep_fds = {writer.get()};
  auto run = RunAndCapture(options, Deadline::After(kLong));
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->output, fmt::format("{}\n", writer.get()));
}

TEST(SubprocessTest, ResetsIgnoredSignals) {
  auto* const before = ::signal(SIGPIPE, SIG_IGN);
  auto run = RunAndCapture(Shell("kill -PIPE $$; echo survived"), Deadline::After(kLong));
  ::signal(SIGPIPE, before);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->exit.Describe(), "was killed by SIGPIPE (signal 13)");
}

TEST(SubprocessTest, ReapsOnceAndForgetsThePid) {
  auto process = Subprocess::Start(Shell("exit 7"));
  ASSERT_TRUE(process.ok());
  ASSERT_TRUE((*process)->Wait(Deadline::After(kLong)).ok());
  EXPECT_EQ((*process)->pid(), 0);
  (*process)->SignalGroup(SIGKILL);  // must reach nobody
  ASSERT_TRUE((*process)->TryReap().has_value());
  EXPECT_EQ((*process)->TryReap()->code, 7);
}

TEST(SubprocessTest, WaitingTooShortIsRetryLater) {
  auto process = Subprocess::Start(Shell("exec sleep 60"));
  ASSERT_TRUE(process.ok());
  EXPECT_FALSE((*process)->TryReap().has_value());
  auto ended = (*process)->Wait(Deadline::After(milliseconds(1)));
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.status().kind(), ErrorKind::kRetryLater);
}

/// Starts `script`, which prints the pid of a grandchild, and returns a pidfd of that one.
struct Family {
  std::unique_ptr<Subprocess> leader;
  UniqueFd grandchild;
};

Family StartFamily(std::string script) {
  SubprocessOptions options = Shell(std::move(script));
  options.capture_output = true;
  auto process = Subprocess::Start(options);
  EXPECT_TRUE(process.ok());
  const pid_t pid = std::stoi(ReadLine((*process)->output()));
  auto grandchild = OpenPidfd(pid);
  EXPECT_TRUE(grandchild.ok()) << grandchild.status().ToString();
  return {std::move(process).value(), std::move(grandchild).value()};
}

TEST(SubprocessTest, DeathOfTheLeaderEndsTheGroup) {
  Family family = StartFamily("sleep 600 & echo $!; exit 0");
  ASSERT_TRUE(family.leader->Wait(Deadline::After(kLong)).ok());
  EXPECT_TRUE(WaitForEnd(family.grandchild, Deadline::After(kLong)));
}

TEST(SubprocessTest, StopReachesTheGroup) {
  Family family = StartFamily("sleep 600 & echo $!; wait");
  auto ended = family.leader->Stop(Deadline::After(kLong));
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->code, SIGTERM);
  EXPECT_TRUE(WaitForEnd(family.grandchild, Deadline::After(kLong)));
}

TEST(SubprocessTest, StopKillsWhoIgnoresTerm) {
  Family family = StartFamily("trap '' TERM; sleep 600 & echo $!; while :; do wait; done");
  auto ended = family.leader->Stop(Deadline::After(milliseconds(50)));
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->code, SIGKILL);
  EXPECT_TRUE(WaitForEnd(family.grandchild, Deadline::After(kLong)));
}

TEST(SubprocessTest, DestructorKillsTheGroup) {
  Family family = StartFamily("sleep 600 & echo $!; wait");
  family.leader.reset();
  EXPECT_TRUE(WaitForEnd(family.grandchild, Deadline::After(kLong)));
}

TEST(SubprocessTest, ChildDiesWithItsParent) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  const UniqueFd reader(fds[0]);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    auto child = Subprocess::Start(Shell("exec sleep 600"));
    const pid_t pid = child.ok() ? (*child)->pid() : 0;
    if (::write(fds[1], &pid, sizeof(pid)) != sizeof(pid)) ::_exit(1);
    while (true) ::pause();
  }
  ::close(fds[1]);
  pid_t pid = 0;
  ASSERT_EQ(::read(reader.get(), &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  auto child = OpenPidfd(pid);
  ASSERT_TRUE(child.ok());
  ASSERT_EQ(::kill(parent, SIGKILL), 0);
  EXPECT_TRUE(WaitForEnd(*child, Deadline::After(kLong)));
  ::waitpid(parent, nullptr, 0);
}

TEST(RunAndCaptureTest, KillsWhatTakesTooLongOrSaysTooMuch) {
  auto slow = RunAndCapture(Shell("exec sleep 600"), Deadline::After(milliseconds(20)));
  ASSERT_FALSE(slow.ok());
  EXPECT_EQ(slow.status().kind(), ErrorKind::kRetryLater);

  auto loud = RunAndCapture(Shell("yes"), Deadline::After(kLong), 1000);
  ASSERT_FALSE(loud.ok());
  EXPECT_EQ(loud.status().kind(), ErrorKind::kBadInput);
}

TEST(PidfdTest, NoSuchProcessIsAReconnect) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  auto gone = OpenPidfd(pid);
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.status().kind(), ErrorKind::kReconnect);
}

}  // namespace
}  // namespace tfos
