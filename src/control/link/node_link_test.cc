#include "control/link/node_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/process/pidfd.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/shared_messages.h"
#include "testing/no_threads.h"

namespace tfos::control {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kLong(30);

/// The agent's end of a link.
class FakeAgent {
 public:
  FakeAgent() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      ADD_FAILURE() << "no socket pair";
    }
    ours_.Reset(ends[0]);
    theirs_.Reset(ends[1]);
  }

  void Write(const std::string& text) {
    EXPECT_EQ(::write(ours_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// False once the node has ended.
  bool TryToWrite(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(ours_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void WriteHead(const std::string& payload) {
    NodeBootstrap bootstrap;
    bootstrap.job_name = "worker";
    bootstrap.heartbeat_interval = milliseconds(10);
    bootstrap.payload_bytes = static_cast<std::int64_t>(payload.size());
    Write(SerializeMessage(bootstrap) + "\n" + payload);
  }
  std::string ReadLine() {
    std::string line;
    char c = 0;
    while (::read(ours_.get(), &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  /// Until the node has sent something.
  void AwaitSome() {
    pollfd polled{.fd = ours_.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&polled, 1, static_cast<int>(milliseconds(kLong).count())), 1);
  }
  /// Until the node has read all that was written.
  void AwaitTaken() {
    int waiting = 1;
    while (::ioctl(ours_.get(), SIOCOUTQ, &waiting) == 0 && waiting > 0) std::this_thread::yield();
    EXPECT_EQ(waiting, 0);
  }
  void Close() { ours_.Reset(); }
  UniqueFd TakeNodeEnd() { return std::move(theirs_); }

  Result<std::unique_ptr<NodeLink>> OpenLink() {
    return NodeLink::Open(TakeNodeEnd(), Deadline::After(kLong));
  }

 private:
  UniqueFd ours_;
  UniqueFd theirs_;
};

TEST(NodeLinkTest, ReadsBootstrapAndPayload) {
  FakeAgent agent;
  const std::string payload("raw\n\0bytes", 10);
  agent.WriteHead(payload);
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok()) << link.status().ToString();
  EXPECT_THAT((*link)->bootstrap(), HasSubstr("\"job_name\":\"worker\""));
  EXPECT_EQ((*link)->TakePayload(), payload);
}

TEST(NodeLinkTest, ABrokenStartIsAnError) {
  FakeAgent cut;
  cut.Write("{\"type\":\"boot");
  cut.Close();
  auto link = cut.OpenLink();
  ASSERT_FALSE(link.ok());
  EXPECT_EQ(link.status().kind(), ErrorKind::kReconnect);

  FakeAgent garbage;
  garbage.Write("]\n");
  EXPECT_EQ(garbage.OpenLink().status().kind(), ErrorKind::kBadInput);

  FakeAgent silent;
  auto late = NodeLink::Open(silent.TakeNodeEnd(), Deadline::After(milliseconds(1)));
  EXPECT_EQ(late.status().kind(), ErrorKind::kRetryLater);
}

TEST(NodeLinkTest, OnlyAnAgentsChildHasALink) {
  ::unsetenv(NodeLink::kFdVariable);
  auto link = NodeLink::FromEnvironment(Deadline::After(kLong));
  ASSERT_FALSE(link.ok());
  EXPECT_EQ(link.status().kind(), ErrorKind::kBadInput);
  EXPECT_THAT(link.status().ToString(), HasSubstr("tfos agent"));
}

TEST(NodeLinkTest, CallsHandlersAndSendsMetrics) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  std::promise<EndEpoch> epoch_ended;
  std::promise<void> feed_ended;
  std::promise<StepTickets> granted;
  const auto on_feed = [&](const NodeCommand& command) {
    if (const auto* ended = std::get_if<EndEpoch>(&command)) epoch_ended.set_value(*ended);
    if (const auto* tickets = std::get_if<StepTickets>(&command)) granted.set_value(*tickets);
    if (std::holds_alternative<EndFeed>(command)) feed_ended.set_value();
  };
  ASSERT_TRUE(
      (*link)
          ->Start({.on_feed = on_feed, .metrics = [] { return std::string(R"({"rows":1})"); }})
          .ok());
  agent.Write("{\"type\":\"end_epoch\",\"queue\":\"input\",\"epoch\":7}\n");
  auto epoch = epoch_ended.get_future();
  ASSERT_EQ(epoch.wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(epoch.get().epoch, 7);
  const StepTickets sent = {
      .queue = "input", .epoch = 1, .granted = 5, .passes = {}, .missing = {"worker:1"}};
  agent.Write(SerializeMessage(sent) + "\n");
  auto tickets = granted.get_future();
  ASSERT_EQ(tickets.wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(tickets.get(), sent);
  agent.Write("{\"type\":\"stop\",\"reason\":\"why\",\"grace_ms\":1}\n");
  agent.Write("{\"type\":\"unheard of\"}\n{\"type\":\"end_feed\"}\n");
  ASSERT_EQ(feed_ended.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{})) << "it says that it answers";
  EXPECT_EQ(agent.ReadLine(), R"({"type":"metrics","metrics":{"rows":1}})");
}

TEST(NodeLinkTest, AnswersWhileItsHandlersAreBusy) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  std::promise<void> came;
  std::promise<void> go_on;
  const auto on_feed = [&](const NodeCommand&) {
    came.set_value();
    go_on.get_future().wait();
  };
  ASSERT_TRUE((*link)->Start({.on_feed = on_feed, .metrics = {}}).ok());
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{})) << "unasked, once it can";
  agent.Write("{\"type\":\"end_feed\"}\n");
  ASSERT_EQ(came.get_future().wait_for(kLong), std::future_status::ready);
  for (int i = 0; i < 3; ++i) {
    agent.Write(SerializeMessage(Ping{}) + "\n");
    EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{}));
  }
  go_on.set_value();
}

TEST(NodeLinkTest, TellsStacksWhileAllElseIsBusy) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  ASSERT_TRUE((*link)->Start({.on_feed = {}, .metrics = {}}).ok());
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{}));
  const std::string asked = SerializeMessage(TellStacks{}) + "\n";
  agent.Write(asked);
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Stacks{})) << "nobody serves them";
  std::promise<void> go_on;
  std::shared_future<void> told = go_on.get_future().share();
  (*link)->ServeStacks([told] {
    told.wait();
    return std::string("Thread 1\n");
  });
  // The first answer serves the second question, too, and holds up no ping.
  agent.Write(asked + asked + SerializeMessage(Ping{}) + "\n");
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{}));
  go_on.set_value();
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Stacks{"Thread 1\n"}));
  agent.Write(asked);
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Stacks{"Thread 1\n"}));
}

TEST(NodeLinkTest, AProfileIsTakenOrSaysWhyNot) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok() && (*link)->Start({.on_feed = {}, .metrics = {}}).ok());
  agent.Write(SerializeMessage(TakeProfile{milliseconds(5)}) + "\n");
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{}));
  EXPECT_THAT(agent.ReadLine(), HasSubstr("runs no Python"));
  (*link)->ServeProfiles([](milliseconds time) -> Result<std::string> {
    if (time > milliseconds(5)) return Status(ErrorKind::kRetryLater, "long");
    return std::string("{}");
  });
  agent.Write(SerializeMessage(TakeProfile{milliseconds(5)}) + "\n");
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Profile{.text = "{}"}));
  agent.Write(SerializeMessage(TakeProfile{milliseconds(6)}) + "\n");
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Profile{.text = "long", .failed = true}));
}

TEST(NodeLinkTest, SendsWholeLinesFromManyThreads) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  const std::string message(500, 'm');
  std::vector<std::thread> senders;
  for (int i = 0; i < 4; ++i) {
    senders.emplace_back([&] {
      for (int k = 0; k < 100; ++k) EXPECT_TRUE((*link)->Send(message).ok());
    });
  }
  for (int i = 0; i < 400; ++i) EXPECT_EQ(agent.ReadLine(), message);
  for (std::thread& sender : senders) sender.join();
}

TEST(NodeLinkTest, SendingToADeadAgentIsAReconnect) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  agent.Close();
  EXPECT_EQ((*link)->Send("x").kind(), ErrorKind::kReconnect);
}

TEST(NodeLinkTest, ALineThatIsNotTakenInTimeGoesOnWhenThereIsRoom) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  const std::string large(kMaxMessageBytes - 1, 'x');
  EXPECT_EQ((*link)->Send(large + "xx").kind(), ErrorKind::kBadInput);
  EXPECT_EQ((*link)->Send(large, Deadline::After(milliseconds(1))).kind(), ErrorKind::kRetryLater);
  EXPECT_EQ((*link)->Send("y", Deadline::After(milliseconds(1))).kind(), ErrorKind::kRetryLater);
  std::future<Status> next = std::async(std::launch::async, [&] { return (*link)->Send("z"); });
  EXPECT_EQ(agent.ReadLine(), large) << "the line is whole";
  EXPECT_EQ(agent.ReadLine(), "z") << "nothing of the one between was begun";
  EXPECT_TRUE(next.get().ok());
}

TEST(NodeLinkTest, ANodeWhoseLinkWasFullAnswersAgain) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  ASSERT_TRUE((*link)->Start({}).ok());
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{}));
  const std::string large(kMaxMessageBytes - 1, 'x');
  EXPECT_EQ((*link)->Send(large, Deadline::After(milliseconds(1))).kind(), ErrorKind::kRetryLater);
  agent.Write(SerializeMessage(Ping{}) + "\n");
  agent.AwaitTaken();
  // The agent reads again. Nothing but the ping makes the node speak.
  EXPECT_EQ(agent.ReadLine(), large);
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{}));
}

TEST(NodeLinkTest, ASlowSenderDoesNotHoldUpAnotherOnesDeadline) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  const std::string large(kMaxMessageBytes - 1, 'x');  // The socket takes only part of it.
  std::future<Status> slow = std::async(std::launch::async, [&] { return (*link)->Send(large); });
  agent.AwaitSome();
  const Status second = (*link)->Send("y", Deadline::After(milliseconds(0)));
  EXPECT_EQ(second.kind(), ErrorKind::kRetryLater);
  EXPECT_EQ(slow.wait_for(milliseconds(0)), std::future_status::timeout) << "it still sends";
  EXPECT_EQ(agent.ReadLine(), large);
  EXPECT_TRUE(slow.get().ok());
  EXPECT_TRUE((*link)->Send("z").ok()) << "nothing of the second message is out";
  EXPECT_EQ(agent.ReadLine(), "z");
}

TEST(NodeLinkTest, TakesOverFromTheKernelsGuard) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  Status elsewhere;
  std::thread([&] { elsewhere = (*link)->Start({}); }).join();
  EXPECT_EQ(elsewhere.kind(), ErrorKind::kBug);
  ASSERT_EQ(::prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
  ASSERT_TRUE((*link)->Start({}).ok());
  int signal = -1;
  ASSERT_EQ(::prctl(PR_GET_PDEATHSIG, &signal), 0);
  EXPECT_EQ(signal, 0);
}

TEST(NodeLinkTest, WithoutAThreadToSpareTheProgramKeepsItsSignals) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  {
    const tfos::testing::NoThreads none;
    EXPECT_EQ((*link)->Start({}).kind(), ErrorKind::kRetryLater);
  }
  sigset_t blocked;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &blocked), 0);
  EXPECT_EQ(::sigismember(&blocked, SIGTERM), 0);
  EXPECT_TRUE((*link)->Start({}).ok());
}

TEST(NodeLinkTest, OfTicketsThatWaitOnlyTheLatestIsKept) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  std::promise<void> came;
  std::promise<void> go_on;
  std::promise<void> feed_ended;
  std::vector<StepTickets> got;
  const auto on_feed = [&](const NodeCommand& command) {
    if (const auto* tickets = std::get_if<StepTickets>(&command)) {
      got.push_back(*tickets);
      if (got.size() > 1) return;
      came.set_value();
      go_on.get_future().wait();
    }
    if (std::holds_alternative<EndFeed>(command)) feed_ended.set_value();
  };
  ASSERT_TRUE((*link)->Start({.on_feed = on_feed, .metrics = {}}).ok());
  constexpr int kSent = 10'000;
  StepTickets tickets = {.queue = "input", .epoch = 1, .granted = 0, .passes = {}, .missing = {}};
  const auto send = [&](int epoch) {
    tickets.epoch = epoch;
    agent.Write(SerializeMessage(tickets) + "\n");
  };
  send(1);
  ASSERT_EQ(came.get_future().wait_for(kLong), std::future_status::ready);
  send(0);
  while (++tickets.granted < kSent) send(1);
  agent.AwaitTaken();
  go_on.set_value();
  agent.Write("{\"type\":\"end_feed\"}\n");
  ASSERT_EQ(feed_ended.get_future().wait_for(kLong), std::future_status::ready);
  // The last that was read from the socket may not have been looked at when the handler went on.
  EXPECT_LT(got.size(), 1000U);
  ASSERT_GE(got.size(), 3U);
  EXPECT_EQ(got[1].epoch, 0) << "another epoch's";
  EXPECT_EQ(got.back().epoch, 1);
  EXPECT_EQ(got.back().granted, kSent - 1);
}

/// A node process with a child of its own, both watched.
class NodeProcess {
 public:
  /// `busy` is called in the node once its link listens.
  NodeProcess(FakeAgent& agent, const NodeLink::Handlers& handlers,
              const std::function<void()>& busy, bool child_leaves_the_group = false) {
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
                  const std::function<void()>& busy, int report, bool child_leaves_the_group) {
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
    busy();
  }

  pid_t pid_ = 0;
  UniqueFd node_;
  UniqueFd child_;
};

void Forever() {
  while (true) ::pause();
}

TEST(NodeLinkTest, TheAgentsDeathKillsTheGroup) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {}, Forever);
  agent.Close();
  EXPECT_TRUE(node.Ends());
}

TEST(NodeLinkTest, TheAgentsDeathKillsWhatHasLeftTheGroup) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {}, Forever, /*child_leaves_the_group=*/true);
  agent.Close();
  EXPECT_TRUE(node.Ends());
}

TEST(NodeLinkTest, AHandlerThatHangsDoesNotDelayTheKill) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {.on_feed = [](const NodeCommand&) { Forever(); }, .metrics = {}},
                   Forever);
  agent.Write("{\"type\":\"end_feed\"}\n");
  agent.Close();
  EXPECT_TRUE(node.Ends());
}

TEST(NodeLinkTest, AnAgentThatSaysMoreThanWaitsIsItsEnd) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {.on_feed = [](const NodeCommand&) { Forever(); }, .metrics = {}},
                   Forever);
  const std::string line =
      SerializeMessage(NodeLeaving{.node_id = 1, .reason = std::string(4'000'000, 'x')}) + "\n";
  std::size_t sent = 0;
  while (sent < 4 * NodeLink::kMostWaitingBytes && agent.TryToWrite(line)) sent += line.size();
  EXPECT_TRUE(node.Ends()) << "it would keep all of what comes";
}

TEST(NodeLinkTest, AProgramThatBlocksSignalsIsKilledAllTheSame) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {}, [] {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    Forever();
  });
  agent.Close();
  EXPECT_TRUE(node.Ends());
}

TEST(NodeLinkTest, GarbageFromTheAgentIsItsEnd) {
  FakeAgent agent;
  agent.WriteHead("");
  NodeProcess node(agent, {}, Forever);
  agent.Write("garbage\n");
  EXPECT_TRUE(node.Ends());
}

}  // namespace
}  // namespace tfos::control
