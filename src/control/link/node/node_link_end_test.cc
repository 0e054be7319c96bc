#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "base/process/pidfd.h"
#include "base/process/unique_fd.h"
#include "base/time/deadline.h"
#include "control/link/node/node_link.h"
#include "control/link/node/test_agent.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/shared_messages.h"
#include "testing/stuck_log.h"

namespace tfos::control {
namespace {

// What ends a node's process, and all that is below it.

/// A node process with a child of its own, both watched.
class NodeProcess {
 public:
  /// `busy` is called in the node once its link listens.
  NodeProcess(FakeAgent& agent, const NodeLink::Handlers& handlers,
              const std::function<void(NodeLink&)>& busy, bool child_leaves_the_group = false) {
    int fds[2];
    EXPECT_EQ(::pipe(fds), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      agent.Close();  // only the parent may hold it
      ::setsid();
      Run(agent, handlers, busy, fds[1], child_leaves_the_group);
      ::_exit(0);
    }
    agent.TakeNodeEnd().Reset();
    ::close(fds[1]);
    pid_t child = 0;
    EXPECT_EQ(::read(fds[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
    ::close(fds[0]);
    pid_ = pid;
    auto node = OpenPidfd(pid);
    auto grandchild = OpenPidfd(child);
    EXPECT_TRUE(node.ok() && grandchild.ok());
    node_ = std::move(node).value();
    child_ = std::move(grandchild).value();
  }
  ~NodeProcess() {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  bool Ends() {
    return WaitForEnd(node_, Deadline::After(kLong)) && WaitForEnd(child_, Deadline::After(kLong));
  }

 private:
  static void Run(FakeAgent& agent, const NodeLink::Handlers& handlers,
                  const std::function<void(NodeLink&)>& busy, int report,
                  bool child_leaves_the_group) {
    auto link = agent.OpenLink();
    int left[2];
    if (::pipe(left) != 0) ::_exit(1);
    const pid_t child = ::fork();
    if (child == 0) {
      if (child_leaves_the_group) ::setsid();
      ::close(left[1]);
      while (true) ::pause();
    }
    // Its end of the pipe is closed once it has left.
    ::close(left[1]);
    char none = 0;
    if (::read(left[0], &none, 1) != 0) ::_exit(1);
    if (!link.ok() || !(*link)->Start(handlers).ok()) ::_exit(1);
    if (::write(report, &child, sizeof(child)) != sizeof(child)) ::_exit(1);
    busy(**link);
  }

  pid_t pid_ = 0;
  UniqueFd node_;
  UniqueFd child_;
};

void Forever() {
  while (true) ::pause();
}
void DoNothing(NodeLink& /*link*/) { Forever(); }

TEST(NodeLinkEndTest, TheAgentsDeathKillsTheGroup) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {}, DoNothing);
  agent.Close();
  EXPECT_TRUE(node.Ends());
}

TEST(NodeLinkEndTest, TheAgentsDeathKillsWhatHasLeftTheGroup) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {}, DoNothing, /*child_leaves_the_group=*/true);
  agent.Close();
  EXPECT_TRUE(node.Ends());
}

TEST(NodeLinkEndTest, AHandlerThatHangsDoesNotDelayTheKill) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {.on_feed = [](const NodeCommand&) { Forever(); }, .metrics = {}},
                   DoNothing);
  agent.Write("{\"type\":\"end_feed\"}\n");
  agent.Close();
  EXPECT_TRUE(node.Ends());
}

/// A message that waits for the handler. Some of them are more than may wait.
std::string LongLine() {
  return SerializeMessage(NodeLeaving{.node_id = 1, .reason = std::string(4'000'000, 'x')}) + "\n";
}

TEST(NodeLinkEndTest, AnAgentThatSaysMoreThanWaitsIsItsEnd) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {.on_feed = [](const NodeCommand&) { Forever(); }, .metrics = {}},
                   DoNothing);
  const std::string line = LongLine();
  std::size_t sent = 0;
  while (sent < 4 * NodeLink::kMostWaitingBytes && agent.TryToWrite(line)) sent += line.size();
  EXPECT_TRUE(node.Ends()) << "it would keep all of what comes";
}

/// A process that says single letters to another one.
class Letters {
 public:
  Letters() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_.Reset(ends[0]);
    writer_.Reset(ends[1]);
  }
  void Say(char letter) const { EXPECT_EQ(::write(writer_.get(), &letter, 1), 1); }
  /// '?' if none comes.
  char Next() const {
    pollfd polled{.fd = reader_.get(), .events = POLLIN, .revents = 0};
    char letter = '?';
    const int patience = static_cast<int>(std::chrono::milliseconds(kLong).count());
    if (::poll(&polled, 1, patience) == 1) {
      EXPECT_EQ(::read(reader_.get(), &letter, 1), 1);
    }
    return letter;
  }

 private:
  UniqueFd reader_;
  UniqueFd writer_;
};

TEST(NodeLinkEndTest, ALogThatTakesNoReasonOfTheEndStopsNobodyElse) {
  const Letters letters;
  FakeAgent agent;
  agent.WriteHead("");
  const auto on_feed = [&](const NodeCommand&) {
    letters.Say('h');
    Forever();
  };
  NodeProcess node(agent, {.on_feed = on_feed, .metrics = {}}, [&](NodeLink& link) {
    tfos::testing::StuckLog log;
    letters.Say('l');
    log.AwaitWriter();
    link.ServeStacks({});
    letters.Say('s');
    Forever();
  });
  EXPECT_EQ(letters.Next(), 'l');
  agent.Write(SerializeMessage(EndFeed{}) + "\n");
  EXPECT_EQ(letters.Next(), 'h');
  // No more than it takes: nobody reads on.
  const std::string line = LongLine();
  for (std::size_t sent = 0; sent <= NodeLink::kMostWaitingBytes; sent += line.size()) {
    EXPECT_TRUE(agent.TryToWrite(line));
  }
  EXPECT_EQ(letters.Next(), 's') << "it would wait for the log, as the thread that writes there";
}

TEST(NodeLinkEndTest, AProgramThatBlocksSignalsIsKilledAllTheSame) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {}, [](NodeLink&) {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    Forever();
  });
  agent.Close();
  EXPECT_TRUE(node.Ends());
}

TEST(NodeLinkEndTest, GarbageFromTheAgentIsItsEnd) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {}, DoNothing);
  agent.Write("garbage\n");
  EXPECT_TRUE(node.Ends());
}

}  // namespace
}  // namespace tfos::control
