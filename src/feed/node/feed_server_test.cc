// What a feed server starts with, how its epochs and it end, and what feeders hear meanwhile. The
// suite that every well-behaved feeder passes is in feed_transport_test.cc.

#include "feed/node/feed_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "feed/node/feed_server_fixture.h"

namespace tfos::feed {
namespace {

using namespace std::chrono_literals;

TEST_F(FeedServerTest, SocketNamesAreNotGuessable) {
  EXPECT_TRUE(server_->endpoint().unix_name.starts_with("tfos-c1-3-"));
  EXPECT_EQ(server_->endpoint().unix_name.size(), std::strlen("tfos-c1-3-") + 32);
  EXPECT_NE(server_->endpoint().port, 0);
}

TEST_F(FeedServerTest, WhoWaitsHearsAtMostOnceASecondThatTheProgramConsumes) {
  ManualClock clock;
  Result<std::unique_ptr<FeedServer>> server =
      FeedServer::Start({.node_id = 3,
                         .key = key_,
                         .bind_address = "",
                         .progress_clock = &clock,
                         .memory_budget_bytes = kRegionBytes,
                         .region_bytes = kRegionBytes});
  ASSERT_TRUE(server.ok()) << server.status().DebugString();
  server_ = std::move(*server);
  RawFeeder feeding = OpenFeeder();
  RawFeeder waiting = Feeder();
  EXPECT_TRUE(waiting.Say(Encode(SessionOptions{.key = {.partition = 1}})));
  EXPECT_TRUE(feeding.Say(Chunk(0, 64) + Chunk(64, 64) + Chunk(128, 64)));
  const auto take = [&] {
    const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
    ASSERT_TRUE(next.ok()) << next.status().DebugString();
  };
  while (server_->counters().open_sessions < 2) std::this_thread::yield();
  take();
  EXPECT_EQ(waiting.Hear(), "PROGRESS");
  clock.Advance(999ms);
  take();
  server_->EndFeed();
  EXPECT_EQ(waiting.Hear(), "OPENED") << "that the feed is over; a second had not passed";
  clock.Advance(1ms);
  take();
  EXPECT_TRUE(feeding.Say(EncodeEnd(3)));
  int told = 0;
  std::string heard;
  while ((heard = feeding.Hear()) == "CREDIT" || heard == "PROGRESS") told += heard == "PROGRESS";
  EXPECT_EQ(heard, "ENDED");
  EXPECT_EQ(told, 2);
  server_.reset();  // Before the clock.
}

TEST_F(FeedServerTest, ImpossibleOptionsAreRefused) {
  const auto start = [&](FeedServerOptions options) {
    return FeedServer::Start(std::move(options)).status();
  };
  EXPECT_EQ(start({.queues = {}}).kind(), ErrorKind::kBadInput);
  EXPECT_EQ(start({.region_bytes = 0}).kind(), ErrorKind::kBadInput);
  EXPECT_EQ(start({.first_port = 2, .last_port = 1}).kind(), ErrorKind::kBadInput);
  EXPECT_FALSE(start({.bind_address = "not an address"}).ok());
  const std::uint16_t taken = server_->endpoint().port;
  const Status busy = start({.bind_address = "127.0.0.1", .first_port = taken, .last_port = taken});
  ASSERT_FALSE(busy.ok());
  EXPECT_EQ(busy.kind(), ErrorKind::kRetryLater);
}

// A mark for each epoch before it would take all memory.
TEST_F(FeedServerTest, TheEndOfAnEpochThatCannotBeMeantIsLeftOut) {
  server_->EndEpoch("input", std::numeric_limits<std::int32_t>::max());
  server_->EndEpoch("input", 0);
  server_->EndFeed();
  const Result<Next> first = server_->Next("input", {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(first.ok()) << first.status().DebugString();
  ASSERT_TRUE(std::holds_alternative<EndOfEpoch>(*first));
  EXPECT_EQ(std::get<EndOfEpoch>(*first).epoch, 0U);
  const Result<Next> second = server_->Next("input", {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(second.ok()) << second.status().DebugString();
  EXPECT_TRUE(std::holds_alternative<EndOfFeed>(*second));
}

// What came of its partitions is forgotten, so all of their rows would come again.
TEST_F(FeedServerTest, AnAttemptOfAJobThatHasEndedOrAtAnEpochThatHasBeenFedBringsNothing) {
  const SessionOptions session{.key = {.job = {7}, .epoch = 0}, .attempt = 4};
  const auto connect = [&] {
    auto client = FeedClient::Connect(server_->endpoint(), key_, {.progress_timeout = kLong},
                                      Deadline::After(kLong));
    EXPECT_TRUE(client.ok()) << client.status().DebugString();
    return std::move(*client);
  };
  const auto first = connect();
  ASSERT_TRUE(first->Open(session).ok());
  ASSERT_TRUE(first->Reserve(1).ok() && first->Commit(1, {0, 1}).ok() && first->Finish().ok());
  EXPECT_EQ(connect()->Count(session.key, 5)->chunks.size(), 1u);
  const auto is_over = [&](const PartitionKey& key) {
    const Result<Opened> opened = connect()->Open({.key = key, .attempt = 6});
    EXPECT_TRUE(opened.ok()) << opened.status().DebugString();
    return opened.ok() && opened->feed_over;
  };
  server_->EndJob(session.key.job);
  EXPECT_EQ(connect()->Count(session.key, 5)->chunks.size(), 0u);
  EXPECT_TRUE(is_over(session.key));
  EXPECT_FALSE(is_over({.job = {8}, .epoch = 0})) << "a stream's next job feeds the same epoch";
  server_->EndEpoch("input", 0);
  EXPECT_TRUE(is_over({.job = {8}, .epoch = 0}));
  EXPECT_FALSE(is_over({.job = {9}, .epoch = 1}));
}

TEST_F(FeedServerTest, AnEpochEndsBehindWhatWasFed) {
  FeedOneProof();
  server_->EndEpoch("input", 0);
  FeedOneProof(1);
  server_->EndEpoch("input", 1);
  server_->EndFeed();
  std::vector<std::string> order;
  while (order.empty() || order.back() != "over") {
    const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
    ASSERT_TRUE(next.ok()) << next.status().DebugString();
    if (const auto* end = std::get_if<EndOfEpoch>(&*next)) {
      order.push_back(fmt::format("epoch {}", end->epoch));
    } else {
      order.push_back(std::holds_alternative<EndOfFeed>(*next) ? "over" : "chunk");
    }
  }
  EXPECT_THAT(order, ::testing::ElementsAre("chunk", "epoch 0", "chunk", "epoch 1", "over"));
}

TEST_F(FeedServerTest, AFeederOfALaterEpochEndsTheEarlierOnes) {
  FeedOneProof();
  const auto feed = [&](std::uint32_t epoch) {
    Result<std::unique_ptr<FeedClient>> client = FeedClient::Connect(
        server_->endpoint(), key_, {.progress_timeout = kLong}, Deadline::After(kLong));
    ASSERT_TRUE(client.ok()) << client.status().DebugString();
    ASSERT_TRUE((*client)->Open({.key = {.job = {7}, .epoch = epoch}}).ok());
  };
  feed(2);
  server_->EndEpoch("input", 0);  // Overtaken: it was heard already.
  feed(2);
  server_->EndEpoch("input", 2);
  std::vector<std::uint32_t> ended;
  while (ended.empty() || ended.back() != 2) {
    const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
    ASSERT_TRUE(next.ok()) << next.status().DebugString();
    if (const auto* end = std::get_if<EndOfEpoch>(&*next)) ended.push_back(end->epoch);
  }
  EXPECT_THAT(ended, ::testing::ElementsAre(0, 1, 2));
}

TEST_F(FeedServerTest, AnEpochThatEndsAfterTheFeedWasTerminatedIsNotHandedOut) {
  server_->EndEpoch("input", 0);
  server_->Terminate();
  server_->EndEpoch("input", 1);
  const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(std::holds_alternative<EndOfFeed>(*next));
}

TEST_F(FeedServerTest, APrivateViewOfAChunkOutlivesItsMemory) {
  FeedOneProof();
  Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(next.ok());
  auto& loan = std::get<ChunkLoan>(*next);
  Result<PrivateView> view = loan.MapPrivately();
  ASSERT_TRUE(view.ok()) << view.status().DebugString();
  ASSERT_TRUE(view->Detach().ok());
  loan.Release();
  FeedOneProof();
  server_->Close();
  ASSERT_EQ(view->bytes().size(), 5u);
  EXPECT_EQ(std::memcmp(view->bytes().data(), "proof", 5), 0);
}

TEST_F(FeedServerTest, ClosingTwiceIsFine) {
  server_->Close();
  server_->Close();
  Result<Next> next = server_->Next("input", {});
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(std::holds_alternative<EndOfFeed>(*next));
}

TEST_F(FeedServerTest, NobodyListensAfterClose) {
  const Endpoint endpoint = server_->endpoint();
  server_->Close();
  const Status status = FeedClient::Connect(endpoint, key_, {}, Deadline::After(kLong)).status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kReconnect);
}

}  // namespace
}  // namespace tfos::feed
