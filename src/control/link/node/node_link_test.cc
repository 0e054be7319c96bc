#include "control/link/node/node_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "control/link/node/test_agent.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/shared_messages.h"
#include "testing/no_threads.h"

namespace tfos::control {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

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
    EXPECT_EQ((*link)->Start({}).kind(), ErrorKind::kNoResources);
  }
  sigset_t blocked;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &blocked), 0);
  EXPECT_EQ(::sigismember(&blocked, SIGTERM), 0);
  EXPECT_TRUE((*link)->Start({}).ok());
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
  // That it answers, and its metrics; two threads say it, and either may be first.
  std::set<std::string> said;
  while (said.size() < 2) said.insert(agent.ReadLine());
  EXPECT_EQ(said, (std::set<std::string>{SerializeMessage(Pong{}),
                                         R"({"type":"metrics","metrics":{"rows":1}})"}));
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

}  // namespace
}  // namespace tfos::control
