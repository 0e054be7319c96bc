// What a feeder does about nodes that it can't reach, or that do not answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "feed/feeder/partition_writer_fixture.h"
#include "net/listen.h"
#include "testing/middle_man.h"

namespace tfos::feed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST_F(PartitionWriterTest, ANodeThatIsGoneIsNotAsked) {
  StartServers(2, 4);
  const PartitionWriterOptions options = Options(3);
  End(0);
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  ASSERT_TRUE(Put(**writer, "for the other").ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Take(*servers_[1]), "for the other");
}

TEST_F(PartitionWriterTest, AFeederThatHasLostAllNodesSaysSoAtOnce) {
  StartServers(3, 4);
  PartitionWriterOptions options = Options(0);
  for (std::size_t i = 1; i < options.endpoints.size(); ++i) options.endpoints[i].unix_name.clear();
  options.most_remote_nodes = 1;  // So the last one has no connection.
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (const std::uint32_t node : {0, 1, 2}) End(node);
  const Status status = Put(**writer, "for nobody");
  EXPECT_EQ(status.kind(), ErrorKind::kReconnect) << status.DebugString();
  EXPECT_THAT(status.ToString(), HasSubstr("feed partition 0: no node could be reached"));
}

/// A host where connections succeed and nobody says a word.
class SilentHost {
 public:
  SilentHost() {
    Result<net::TcpListener> listening = net::ListenTcp("127.0.0.1", 0, 0);
    EXPECT_TRUE(listening.ok()) << listening.status().DebugString();
    if (listening.ok()) listening_ = std::move(*listening);
  }
  Endpoint endpoint(std::uint32_t node_id) const {
    return {.host = "127.0.0.1", .port = listening_.port, .node_id = node_id};
  }
  /// Whether somebody has connected.
  bool called() const {
    pollfd polled{.fd = listening_.fd.get(), .events = POLLIN, .revents = 0};
    return ::poll(&polled, 1, 0) == 1;
  }

 private:
  net::TcpListener listening_;
};

// It may have rows of an earlier attempt, and would go on with them.
// Covers: network cut / feeding
TEST_F(PartitionWriterTest, ANodeThatRunsAndCannotBeReachedIsNotDoneWithout) {
  StartServers(2, 4);
  PartitionWriterOptions options = Options(5);
  // A firewall refuses what comes from this host.
  options.endpoints[1] = {.host = "127.0.0.1", .port = 1, .node_id = 1};
  options.progress_timeout = 100ms;
  const Status status = PartitionWriter::Open(options).status();
  EXPECT_EQ(status.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(status.ToString(),
              AllOf(HasSubstr("feed partition 5: node 1 on host 127.0.0.1 runs, but host "),
                    HasSubstr("can't reach it"), HasSubstr("Connection refused"),
                    HasSubstr("TCP port 1 (firewall, routes, spark.tfos.ports)")));
}

TEST_F(PartitionWriterTest, NobodyIsDoneWithoutWhenTheCoordinatorDoesNotAnswer) {
  StartServers(2, 4);
  PartitionWriterOptions options = Options(5);
  options.progress_timeout = 100ms;
  options.ask_ended = [](const InterruptCheck&) -> Result<std::set<std::uint32_t>> {
    return Status(ErrorKind::kRetryLater, "no answer");
  };
  servers_[0].reset();
  const Status status = PartitionWriter::Open(options).status();
  EXPECT_EQ(status.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(status.ToString(), HasSubstr("the coordinator does not say whether it runs"));
}

TEST_F(PartitionWriterTest, WhenTheClusterHasFailedThatIsTheReason) {
  StartServers(2, 4);
  PartitionWriterOptions options = Options(5);
  options.ask_ended = [](const InterruptCheck&) -> Result<std::set<std::uint32_t>> {
    return Status(ErrorKind::kReconnect, "the cluster has failed");
  };
  servers_[0].reset();
  EXPECT_EQ(PartitionWriter::Open(options).status().kind(), ErrorKind::kReconnect);
}

TEST_F(PartitionWriterTest, ANodeThatCanBeReachedAfterAllIsAskedWhatItHas) {
  StartServers(2, 4);
  PartitionWriterOptions options = Options(0);
  const std::uint16_t port = servers_[1]->endpoint().port;
  options.endpoints[1].unix_name.clear();
  servers_[1].reset();
  options.ask_ended = [&](const InterruptCheck&) -> Result<std::set<std::uint32_t>> {
    Result<std::unique_ptr<FeedServer>> server = FeedServer::Start({.node_id = 1,
                                                                    .key = key_,
                                                                    .cluster_id = "c1",
                                                                    .bind_address = "127.0.0.1",
                                                                    .first_port = port,
                                                                    .last_port = port});
    EXPECT_TRUE(server.ok()) << server.status().DebugString();
    servers_[1] = std::move(*server);
    return std::set<std::uint32_t>();
  };
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  ASSERT_TRUE(Put(**writer, "one", 0).ok());
  ASSERT_TRUE(Put(**writer, "two", 1).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(servers_[0]->counters().items, 1u);
  EXPECT_EQ(servers_[1]->counters().items, 1u);
}

// The kernel tries a dead host for a minute.
TEST_F(PartitionWriterTest, AHostThatHasEndedIsWaitedForOnceAtMost) {
  StartServers(1, 4);
  const SilentHost dead;
  PartitionWriterOptions options = Options(0);
  options.endpoints.push_back(dead.endpoint(7));
  Say(7);
  const auto feed = [&](std::uint32_t partition) {
    options.session.key.partition = partition;
    Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
    ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
    ASSERT_TRUE(Put(**writer, "row", 0).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  };
  feed(0);
  EXPECT_TRUE(dead.called());
  const SilentHost not_tried;
  options.endpoints[1] = not_tried.endpoint(7);
  feed(1);
  EXPECT_FALSE(not_tried.called());
}

TEST_F(PartitionWriterTest, NodesAreLookedForAtTheSameTime) {
  const SilentHost hosts[3];
  PartitionWriterOptions options = Options(0);
  for (std::uint32_t i = 0; i < 3; ++i) options.endpoints.push_back(hosts[i].endpoint(i));
  // The first never answers, which stops none of the others.
  options.check = [&] {
    const bool all = std::ranges::all_of(hosts, &SilentHost::called);
    return all ? Status(ErrorKind::kInterrupted, "all were called") : Status::Ok();
  };
  EXPECT_EQ(PartitionWriter::Open(options).status().kind(), ErrorKind::kInterrupted);
}

TEST_F(PartitionWriterTest, EveryNodeThatIsNotReachedInTimeIsNamed) {
  StartServers(1, 2);
  const SilentHost first;
  const SilentHost second;
  PartitionWriterOptions options = Options(5);
  options.endpoints.push_back(first.endpoint(7));
  options.endpoints.push_back(second.endpoint(8));
  options.connect_timeout = 50ms;
  const Status status = PartitionWriter::Open(options).status();
  EXPECT_EQ(status.kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(status.ToString(),
              AllOf(HasSubstr("feed partition 5: not reached within"),
                    HasSubstr("node 7 on 127.0.0.1"), HasSubstr("node 8 on 127.0.0.1")));
}

TEST_F(PartitionWriterTest, WhereNoNodeIsLeftEachIsNamed) {
  StartServers(2, 1);
  const PartitionWriterOptions options = Options(5);
  for (std::uint32_t i = 0; i < 2; ++i) End(i);
  const Status status = PartitionWriter::Open(options).status();
  EXPECT_EQ(status.kind(), ErrorKind::kReconnect);
  EXPECT_THAT(status.ToString(),
              AllOf(HasSubstr("feed partition 5: no node could be reached"),
                    HasSubstr("node 0 on 127.0.0.1"), HasSubstr("node 1 on 127.0.0.1")));
}

TEST_F(PartitionWriterTest, AFailureIsNotHeldUpByASilentNode) {
  StartServers(1, 1);
  const SilentHost silent;
  PartitionWriterOptions options = Options(0);
  servers_[0]->Fail("the program has failed");
  options.endpoints.insert(options.endpoints.begin(), silent.endpoint(7));
  EXPECT_EQ(PartitionWriter::Open(options).status().kind(), ErrorKind::kBadInput);
}

TEST_F(PartitionWriterTest, ANodeThatFallsSilentBeforeItBeginsIsNotWaitedForLonger) {
  StartServers(2, 1);
  // While one connection lasts, it takes up no other one.
  testing::MiddleMan between(servers_[1]->endpoint().port,
                             [](auto, std::uint64_t, std::string&) { return true; });
  const std::unique_ptr<FeedClient> slow = HolderAt(1);
  ASSERT_NE(slow, nullptr);
  PartitionWriterOptions options = Options(0);
  for (Endpoint& endpoint : options.endpoints) endpoint.unix_name.clear();
  options.endpoints[1].port = between.port();
  ExpectAllAtTheFirst(std::move(options));
}

// A program that returned in order, before this feeder had sent it anything.
TEST_F(PartitionWriterTest, ANodeThatWasNotFedMayLeave) {
  StartServers(2, 8);
  PartitionWriterOptions options = Options(0);
  options.endpoints[1].unix_name.clear();
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  End(1);
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(Put(**writer, std::string(1000, 'r'), i).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(servers_[0]->counters().items, 20u);
}

// What it has taken it goes on reading.
// Covers: network cut / feeding
TEST_F(PartitionWriterTest, WhatANodeThatRunsHasIsNotForOthersWhenItsConnectionBreaks) {
  StartServers(2, 4);
  auto between = std::make_unique<testing::MiddleMan>(
      servers_[0]->endpoint().port, [](auto, std::uint64_t, std::string&) { return true; });
  PartitionWriterOptions options = Options(0);
  for (Endpoint& endpoint : options.endpoints) endpoint.unix_name.clear();
  options.endpoints[0].port = between->port();
  options.session.until_read = true;
  // Also the patience with a node that can't be reached; nothing here waits for progress.
  options.progress_timeout = 2s;
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (std::uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(Put(**writer, "row", i).ok());
  const Deadline in_time = Deadline::After(kLong);
  while (servers_[0]->counters().items < 3 && !in_time.passed()) std::this_thread::yield();
  EXPECT_EQ(Take(*servers_[0]), "row");
  between.reset();
  Status status;
  for (std::uint64_t i = 6; status.ok() && !in_time.passed(); ++i) {
    status = Put(**writer, "row", i);
    (void)Take(*servers_[1], 0ms);
  }
  EXPECT_EQ(status.kind(), ErrorKind::kUnsupported) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("node 0 on host 127.0.0.1 runs, but host "));
  EXPECT_EQ((*writer)->moved_items(), 0u);
}

}  // namespace
}  // namespace tfos::feed
