#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "control/link/node/node_link.h"
#include "control/link/node/test_agent.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/shared_messages.h"

namespace tfos::control {
namespace {

// What a node says to its agent, unasked or when it is asked.

using std::chrono::milliseconds;
using ::testing::HasSubstr;

/// A handler of the feed that stands still in its first call.
///
/// Owner and lifetime: a local of a test, that outlives the link. Threads: those of test and link.
class BusyHandler {
 public:
  void operator()(const NodeCommand& /*command*/) {
    came_.set_value();
    go_on_.get_future().wait();
  }
  void AwaitCall() { ASSERT_EQ(came_.get_future().wait_for(kLong), std::future_status::ready); }
  void GoOn() { go_on_.set_value(); }

 private:
  std::promise<void> came_;
  std::promise<void> go_on_;
};

TEST(NodeLinkSendTest, SendsWholeLinesFromManyThreads) {
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

TEST(NodeLinkSendTest, SendingToADeadAgentIsAReconnect) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  agent.Close();
  EXPECT_EQ((*link)->Send("x").kind(), ErrorKind::kReconnect);
}

TEST(NodeLinkSendTest, ALineThatIsNotTakenInTimeGoesOnWhenThereIsRoom) {
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

TEST(NodeLinkSendTest, ASlowSenderDoesNotHoldUpAnotherOnesDeadline) {
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

TEST(NodeLinkSendTest, AnswersWhileItsHandlersAreBusy) {
  BusyHandler busy;
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  ASSERT_TRUE((*link)->Start({.on_feed = std::ref(busy), .metrics = {}}).ok());
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{})) << "unasked, once it can";
  agent.Write(SerializeMessage(EndFeed{}) + "\n");
  busy.AwaitCall();
  for (int i = 0; i < 3; ++i) {
    agent.Write(SerializeMessage(Ping{}) + "\n");
    EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{}));
  }
  busy.GoOn();
}

TEST(NodeLinkSendTest, SendsMetricsWhileTheHandlerOfTheFeedIsBusy) {
  BusyHandler busy;
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  std::atomic<bool> ends = false;
  const auto metrics = [&] { return std::string(ends ? R"({"rows":1})" : ""); };
  ASSERT_TRUE((*link)->Start({.on_feed = std::ref(busy), .metrics = metrics}).ok());
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{}));
  agent.Write(SerializeMessage(EndFeed{}) + "\n");
  busy.AwaitCall();
  // A program that returns has its last metrics sent, and nothing that it waits for may hang.
  ends = true;
  const auto sent = std::async(std::launch::async, [&] { (*link)->SendMetrics(); });
  EXPECT_EQ(sent.wait_for(kLong), std::future_status::ready);
  busy.GoOn();
  EXPECT_EQ(agent.ReadLine(), R"({"type":"metrics","metrics":{"rows":1}})");
}

TEST(NodeLinkSendTest, ANodeWhoseLinkWasFullAnswersAgain) {
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

TEST(NodeLinkSendTest, TellsStacksWhileAllElseIsBusy) {
  FakeAgent agent;
  agent.WriteHead("");
  auto link = agent.OpenLink();
  ASSERT_TRUE(link.ok());
  ASSERT_TRUE((*link)->Start({.on_feed = {}, .metrics = {}}).ok());
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{}));
  const std::string asked = SerializeMessage(TellStacks{}) + "\n";
  agent.Write(asked);
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Stacks{.text = ""})) << "nobody serves them";
  std::promise<void> go_on;
  std::shared_future<void> told = go_on.get_future().share();
  (*link)->ServeStacks([told](bool gentle) {
    told.wait();
    return std::string(gentle ? "With the lock\n" : "Thread 1\n");
  });
  // The first answer serves the second question, too, and holds up no ping.
  agent.Write(asked + asked + SerializeMessage(Ping{}) + "\n");
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Pong{}));
  go_on.set_value();
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Stacks{.text = "Thread 1\n"}));
  agent.Write(asked);
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Stacks{.text = "Thread 1\n"}));
  agent.Write(SerializeMessage(TellStacks{.gentle = true}) + "\n");
  EXPECT_EQ(agent.ReadLine(), SerializeMessage(Stacks{.text = "With the lock\n", .gentle = true}));
}

TEST(NodeLinkSendTest, AProfileIsTakenOrSaysWhyNot) {
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

}  // namespace
}  // namespace tfos::control
