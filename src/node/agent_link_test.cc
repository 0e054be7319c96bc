#include "node/agent_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "base/process/unique_fd.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/metric_names.h"
#include "control/messages/parts/shared_messages.h"
#include "feed/feeder/client/feed_client.h"
#include "testing/stuck_log.h"

namespace tfos::node {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

constexpr std::chrono::seconds kLong(60);

/// A link whose agent is this test, with a feed. The agent's end goes last: its end would end the
/// process.
class AgentLinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    agent_.Reset(ends[0]);
    node_.Reset(ends[1]);
    auto server = feed::FeedServer::Start({.key = key_,
                                           .cluster_id = "c1",
                                           .bind_address = "",
                                           .memory_budget_bytes = 256 << 10,
                                           .region_bytes = 64 << 10});
    ASSERT_TRUE(server.ok()) << server.status().DebugString();
    feed_ = std::make_shared<NodeFeed>(std::move(*server));
  }

  void Open(std::chrono::milliseconds heartbeat_interval) {
    control::NodeBootstrap bootstrap;
    bootstrap.job_name = "worker";
    bootstrap.heartbeat_interval = heartbeat_interval;
    Tell(bootstrap);
    auto opened = control::NodeLink::Open(std::move(node_), Deadline::After(kLong));
    ASSERT_TRUE(opened.ok()) << opened.status().DebugString();
    auto link = AgentLink::Start(std::move(*opened));
    ASSERT_TRUE(link.ok()) << link.status().DebugString();
    link_ = std::move(*link);
  }

  template <typename Message>
  void Tell(const Message& message) {
    const std::string line = control::SerializeMessage(message) + "\n";
    ASSERT_EQ(::write(agent_.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }

  /// The next message of the node.
  json Hear() {
    std::string line;
    char byte = 0;
    while (::read(agent_.get(), &byte, 1) == 1 && byte != '\n') line += byte;
    return json::parse(line, nullptr, false);
  }

  /// The first metrics that have `name`.
  json HearMetrics(const std::string& name) {
    while (true) {
      const json message = Hear();
      if (message.is_discarded()) return message;
      if (message.contains("metrics") && message["metrics"].contains(name)) {
        return message["metrics"];
      }
    }
  }

  bool FeedEnds() {
    const auto next = feed_->server().Next("input", {.deadline = Deadline::After(kLong)});
    return next.ok() && std::holds_alternative<feed::EndOfFeed>(*next);
  }

  /// What other threads can do while one stands still in the log.
  void UseFromAnotherThread() {
    auto done = std::async(std::launch::async, [this] {
      EXPECT_TRUE(link_->SetMetrics("{}").ok());
      return link_->Leaving().size();
    });
    // Were the lock held, it would end only after the log has gone on, which is later.
    EXPECT_EQ(done.wait_for(kLong), std::future_status::ready);
  }

  const Secret key_ = Secret::Generate().value();
  UniqueFd agent_;
  UniqueFd node_;
  std::shared_ptr<NodeFeed> feed_;
  std::unique_ptr<AgentLink> link_;
};

TEST_F(AgentLinkTest, ReportsTheFeedAndTheProgram) {
  Open(std::chrono::milliseconds(10));
  link_->Attach(feed_);
  feed_->CountRows(7);
  ASSERT_TRUE(link_->SetMetrics(R"({"loss": 0.5, "rows": 1})").ok());
  const json metrics = HearMetrics("loss");
  EXPECT_EQ(metrics["loss"], 0.5);
  EXPECT_EQ(metrics["rows"], 7) << "the driver counts rows by this name";
  EXPECT_EQ(metrics["program_rows"], 1);
}

TEST_F(AgentLinkTest, EveryNameOfTheFeedIsKnown) {
  Open(std::chrono::milliseconds(10));
  feed_->NoteAskedForMore();
  link_->Attach(feed_);
  const json metrics = HearMetrics("asked_for_more");
  EXPECT_GT(metrics.size(), 15U);
  for (const auto& [name, value] : metrics.items()) {
    EXPECT_NE(control::FindKnownMetric(name), nullptr) << name;
  }
}

TEST_F(AgentLinkTest, MetricsThatAreNoObjectAreRefused) {
  Open(std::chrono::hours(1));
  EXPECT_FALSE(link_->SetMetrics("[1]").ok());
  EXPECT_FALSE(link_->SetMetrics("{").ok());
}

TEST_F(AgentLinkTest, TheAgentEndsEpochsAndTheFeed) {
  Open(std::chrono::hours(1));
  link_->Attach(feed_);
  Tell(control::EndEpoch{.queue = "input", .epoch = 0});
  const auto end = feed_->server().Next("input", {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(end.ok()) << end.status().DebugString();
  EXPECT_TRUE(std::holds_alternative<feed::EndOfEpoch>(*end));
  Tell(control::EndFeed{});
  EXPECT_TRUE(FeedEnds());
}

// As a node that comes late: the coordinator tells it with its start.
TEST_F(AgentLinkTest, EpochsThatEndedBeforeTheFeedWasThereHaveEnded) {
  Open(std::chrono::hours(1));
  Tell(control::EndEpoch{.queue = "input", .epoch = 1});
  Tell(control::NodeLeaving{.node_id = 2, .reason = "the agent says this last"});
  const Deadline deadline = Deadline::After(kLong);
  while (link_->Leaving().empty() && !deadline.passed()) std::this_thread::yield();
  ASSERT_FALSE(link_->Leaving().empty());
  link_->Attach(feed_);
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    const auto end = feed_->server().Next("input", {.deadline = Deadline::After(kLong)});
    ASSERT_TRUE(end.ok()) << end.status().DebugString();
    EXPECT_TRUE(std::holds_alternative<feed::EndOfEpoch>(*end));
  }
}

TEST_F(AgentLinkTest, TheAgentEndsJobs) {
  Open(std::chrono::hours(1));
  link_->Attach(feed_);
  auto feeder = feed::FeedClient::Connect(feed_->server().endpoint(), key_,
                                          {.progress_timeout = kLong}, Deadline::After(kLong));
  ASSERT_TRUE(feeder.ok()) << feeder.status().DebugString();
  ASSERT_TRUE((*feeder)->Count({.job = {0xab}}, 1).ok());
  EXPECT_EQ(feed_->server().counters().known_partitions, 1U);
  Tell(control::EndJob{.job = "ab"});  // No id of a job.
  Tell(control::EndJob{.job = "ab" + std::string(30, '0')});
  Tell(control::EndFeed{});
  EXPECT_TRUE(FeedEnds());  // which was told later
  EXPECT_EQ(feed_->server().counters().known_partitions, 0U);
}

TEST_F(AgentLinkTest, GrantsArrive) {
  Open(std::chrono::hours(1));
  link_->Attach(feed_);
  control::StepTickets tickets;
  tickets.queue = "input";
  tickets.epoch = 2;
  tickets.granted = 5;
  tickets.longest = 9;
  tickets.missing = {"worker:1"};
  Tell(tickets);
  const auto grant = feed_->steps().Await(
      "input", 2, [](const feed::StepGrant& some) { return some.granted == 5; },
      {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(grant.ok()) << grant.status().DebugString();
  EXPECT_EQ(grant->longest, 9U);
  EXPECT_THAT(grant->missing, ElementsAre("worker:1"));
}

TEST_F(AgentLinkTest, KnowsWhichNodesLeave) {
  Open(std::chrono::hours(1));
  link_->Attach(feed_);
  EXPECT_TRUE(link_->Leaving().empty());
  Tell(control::NodeLeaving{.node_id = 2, .reason = "why"});
  Tell(control::EndFeed{});
  EXPECT_TRUE(FeedEnds());  // which was told later
  EXPECT_THAT(link_->Leaving(), ElementsAre(std::pair(2, "why")));
}

TEST_F(AgentLinkTest, KnowsWhereLostNodesAreNow) {
  Open(std::chrono::hours(1));
  link_->Attach(feed_);
  const AgentLink::FindMoved moved = link_->moved();
  EXPECT_FALSE(moved(0).has_value());
  for (const char* address : {"10.0.0.7", "10.0.0.8"}) {
    Tell(control::NodeMoved{
        .node_id = 0, .name = "ps:0 on host b", .address = address, .tensor_port = 2223});
  }
  Tell(control::EndFeed{});
  EXPECT_TRUE(FeedEnds());  // which was told later
  link_.reset();
  const auto there = moved(0);
  ASSERT_TRUE(there.has_value()) << "also when the link has ended";
  EXPECT_EQ(there->name, "ps:0 on host b");
  EXPECT_EQ(there->address, "10.0.0.8");
  EXPECT_EQ(there->tensor_port, 2223);
  EXPECT_FALSE(moved(1).has_value());
}

TEST_F(AgentLinkTest, AFeedThatComesAfterItsEndEndsAtOnce) {
  Open(std::chrono::milliseconds(10));
  Tell(control::EndFeed{});
  link_->Attach(feed_);
  EXPECT_TRUE(FeedEnds());
}

TEST_F(AgentLinkTest, OnlyAFeedThatIsStoppedIsReadNoMore) {
  Open(std::chrono::hours(1));
  link_->Attach(feed_);
  Tell(control::EndFeed{});
  EXPECT_TRUE(FeedEnds());
  EXPECT_FALSE(feed_->server().reading_stopped());
  Tell(control::EndFeed{.at_once = true});
  const Deadline deadline = Deadline::After(kLong);
  while (!feed_->server().reading_stopped() && !deadline.passed()) std::this_thread::yield();
  EXPECT_TRUE(feed_->server().reading_stopped());
}

TEST_F(AgentLinkTest, AFeedThatComesAfterAStopIsStopped) {
  Open(std::chrono::milliseconds(10));
  Tell(control::EndFeed{.at_once = true});
  link_->Attach(feed_);
  EXPECT_TRUE(FeedEnds());
  EXPECT_TRUE(feed_->server().reading_stopped());
}

TEST_F(AgentLinkTest, ALogThatTakesNoWarningOfAMessageStopsNobodyElse) {
  Open(std::chrono::hours(1));
  link_->Attach(feed_);
  testing::StuckLog log;
  Tell(control::AbandonEpoch{.queue = "input", .epoch = 0, .job = "no number"});
  log.AwaitWriter();
  UseFromAnotherThread();
  auto last = std::async(std::launch::async, [this] {
    return link_->Send(control::SerializeMessage(control::Done{}));
  });
  EXPECT_EQ(last.wait_for(kLong), std::future_status::ready) << "a program that returns says so";
  log.ReadUntil("the end of an interrupted job is left out");
}

TEST_F(AgentLinkTest, ALogThatTakesNoWarningOfAMetricStopsNobodyElse) {
  Open(std::chrono::milliseconds(10));
  link_->Attach(feed_);
  testing::StuckLog log;
  ASSERT_TRUE(link_->SetMetrics(R"({"rows": 1})").ok());
  log.AwaitWriter();
  UseFromAnotherThread();
  log.ReadUntil("the program reports a metric named 'rows', as the feed does");
}

// A thread that reads batches may be sending a report while the module is torn down.
TEST_F(AgentLinkTest, AReportUnderWayArrivesAfterTheLinkIsGone) {
  const int small = 4096;
  ASSERT_EQ(::setsockopt(node_.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  Open(std::chrono::hours(1));
  link_->Attach(feed_);
  ASSERT_EQ(Hear()["type"], "pong");
  // More than the socket takes: the sender waits in the middle of it.
  const std::string queue(256 << 10, 'q');
  auto sent = std::async(std::launch::async,
                         [&] { return feed_->steps().Report({.queue = queue, .epoch = 1}); });
  pollfd readable{.fd = agent_.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&readable, 1, static_cast<int>(std::chrono::milliseconds(kLong).count())), 1);
  link_.reset();
  const json report = Hear();
  ASSERT_TRUE(report.is_object()) << "the rest of the report did not come";
  EXPECT_EQ(report["queue"], queue);
  EXPECT_TRUE(sent.get().ok());
}

}  // namespace
}  // namespace tfos::node
