// Rows that one node passes on to another at the end of an epoch: sessions of mode 2.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "feed/feeder/client/feed_client.h"
#include "feed/feeder/pass_rows.h"
#include "feed/node/feed_server.h"
#include "net/listen.h"

namespace tfos::feed {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

constexpr auto kLong = 60s;
constexpr std::uint64_t kRegionBytes = 64 * 1024;
constexpr std::string_view kChunk = "of another node";

class PassedRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<FeedServer>> server =
        FeedServer::Start({.key = key_,
                           .cluster_id = "c1",
                           .bind_address = "",
                           .memory_budget_bytes = kRegionBytes,
                           .region_bytes = kRegionBytes});
    ASSERT_TRUE(server.ok()) << server.status().DebugString();
    server_ = std::move(*server);
  }

  std::unique_ptr<FeedClient> Connect() {
    Result<std::unique_ptr<FeedClient>> client = FeedClient::Connect(
        server_->endpoint(), key_, {.progress_timeout = kLong}, Deadline::After(kLong));
    EXPECT_TRUE(client.ok()) << client.status().DebugString();
    return std::move(*client);
  }

  Status Pass(std::uint32_t epoch, const ItemRange& rows, const std::string& queue = "input") {
    return PassRows(server_->endpoint(), key_, queue, epoch,
                    std::as_bytes(std::span(kChunk.data(), kChunk.size())), rows);
  }

  Result<ChunkLoan> Take(std::uint32_t epoch, Clock::Duration patience = kLong) {
    return server_->NextPassed("input", epoch, {.deadline = Deadline::After(patience)});
  }

  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
  std::unique_ptr<FeedServer> server_;
};

TEST_F(PassedRowsTest, AreTakenByTheirEpochAndApartFromWhatIsFed) {
  ASSERT_TRUE(Pass(1, {3, 5}).ok());
  ASSERT_TRUE(Pass(0, {7, 8}).ok());
  ASSERT_TRUE(Pass(0, {9, 12}).ok());
  const Result<Next> fed = server_->Next("input", {.deadline = Deadline::After(0s)});
  EXPECT_EQ(fed.status().kind(), ErrorKind::kRetryLater) << "they are not a chunk of a feeder";
  for (const ItemRange& rows : {ItemRange{7, 8}, ItemRange{9, 12}}) {
    const Result<ChunkLoan> loan = Take(0);
    ASSERT_TRUE(loan.ok()) << loan.status().DebugString();
    EXPECT_EQ(loan->first_item(), rows.begin);
    EXPECT_EQ(loan->items(), rows.items());
    EXPECT_EQ(
        std::string_view(reinterpret_cast<const char*>(loan->bytes().data()), loan->bytes().size()),
        kChunk)
        << "the whole chunk, unchanged";
  }
  EXPECT_EQ(Take(0, 0s).status().kind(), ErrorKind::kRetryLater);
  EXPECT_EQ(Take(1)->first_item(), 3u);
}

TEST_F(PassedRowsTest, CountInNoLedgerAndEndNoEpoch) {
  ASSERT_TRUE(Pass(5, {0, 4}).ok());
  EXPECT_EQ(server_->counters().bytes, 0u);
  EXPECT_EQ(server_->counters().train_items, 0u);
  const Result<Counted> counted = Connect()->Count({.epoch = 5}, 1);
  ASSERT_TRUE(counted.ok()) << counted.status().DebugString();
  EXPECT_THAT(counted->chunks, IsEmpty());
  EXPECT_TRUE(counted->accepted.none()) << "a feeder still takes it for a node without a row";
  const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(0s)});
  EXPECT_EQ(next.status().kind(), ErrorKind::kRetryLater) << "no mark of an earlier epoch's end";
}

TEST_F(PassedRowsTest, TakeOverFromNoAttempt) {
  // The same key as that of rows that are passed on in epoch 0.
  const std::unique_ptr<FeedClient> feeder = Connect();
  ASSERT_TRUE(feeder->Open({.region_bytes = 1}).ok());
  ASSERT_TRUE(Pass(0, {0, 1}).ok());
  const Result<std::span<std::byte>> room = feeder->Reserve(1);
  ASSERT_TRUE(room.ok()) << room.status().DebugString();
  ASSERT_TRUE(feeder->Commit(1, {0, 1}).ok());
  EXPECT_TRUE(feeder->Finish().ok());
}

TEST_F(PassedRowsTest, ComeWhateverMemoryIsLeft) {
  const std::unique_ptr<FeedClient> next_epoch = Connect();
  ASSERT_TRUE(next_epoch->Open({.key = {.epoch = 1}}).ok());
  const std::unique_ptr<FeedClient> waiting = Connect();
  ASSERT_TRUE(waiting->BeginOpen({.key = {.epoch = 1, .partition = 1}}).ok());
  ASSERT_TRUE(Pass(0, {0, 4}).ok());
  EXPECT_TRUE(Take(0).ok());
  EXPECT_FALSE(waiting->opened()) << "the budget is full";
}

TEST_F(PassedRowsTest, ComeWhenTheFeedIsOver) {
  server_->EndFeed();
  ASSERT_TRUE(Pass(0, {0, 4}).ok());
  EXPECT_EQ(Take(0)->items(), 4u);
}

TEST_F(PassedRowsTest, AreNotWantedOnceTheFeedWasTerminated) {
  ASSERT_TRUE(Pass(0, {0, 4}).ok());
  server_->Terminate();
  const Status passed = Pass(0, {4, 8});
  EXPECT_EQ(passed.kind(), ErrorKind::kReconnect) << "the node that gives keeps them";
  EXPECT_THAT(passed.ToString(), HasSubstr("wants no more rows"));
  EXPECT_EQ(Take(0, 0s).status().kind(), ErrorKind::kRetryLater);
  EXPECT_EQ(server_->counters().queued_chunks, 0u);
}

// Else a program may train on them, and the node that gives, which did not hear of it, too.
TEST_F(PassedRowsTest, AreHereOnceAllOfThemAre) {
  const std::unique_ptr<FeedClient> giver = Connect();
  const SessionOptions session{
      .mode = Mode::kPass, .queue = "input", .key = {.partition = 1}, .attempt = 1};
  ASSERT_TRUE(giver->Open(session).ok());
  ASSERT_TRUE(giver->Reserve(1).ok());
  ASSERT_TRUE(giver->Commit(1, {0, 1}).ok());
  EXPECT_EQ(Take(0, 0s).status().kind(), ErrorKind::kRetryLater);
  ASSERT_TRUE(giver->End().ok());
  const Result<Ended> ended = giver->Finish();
  ASSERT_TRUE(ended.ok()) << ended.status().DebugString();
  EXPECT_FALSE(ended->stopped);
  EXPECT_TRUE(Take(0, 0s).ok());
}

TEST_F(PassedRowsTest, OfABrokenConnectionStayWithTheirGiver) {
  {
    const std::unique_ptr<FeedClient> giver = Connect();
    const SessionOptions session{.mode = Mode::kPass, .key = {.partition = 1}, .attempt = 1};
    ASSERT_TRUE(giver->Open(session).ok());
    ASSERT_TRUE(giver->Reserve(1).ok());
    ASSERT_TRUE(giver->Commit(1, {0, 1}).ok());
  }
  while (server_->counters().broken_sessions == 0) std::this_thread::yield();
  EXPECT_EQ(Take(0, 0s).status().kind(), ErrorKind::kRetryLater);
  EXPECT_EQ(server_->counters().queued_chunks, 0u);
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
}

// What a program has taken is its own, though it ends then: they must not be trained on twice.
TEST_F(PassedRowsTest, ThatWereTakenAreNotGivenBack) {
  const auto pass = [&](std::uint64_t number) {
    return PassRows(server_->endpoint(), key_, "input", 0,
                    std::as_bytes(std::span(kChunk.data(), kChunk.size())), {0, 2},
                    {.from = 1, .number = number});
  };
  ASSERT_TRUE(pass(1).ok());
  ASSERT_TRUE(Take(0, 0s).ok());
  ASSERT_TRUE(pass(2).ok());
  server_->Terminate();
  const Status again = pass(1);
  EXPECT_TRUE(again.ok()) << again.DebugString();
  EXPECT_EQ(pass(2).kind(), ErrorKind::kReconnect) << "these were dropped";
  EXPECT_EQ(server_->counters().queued_chunks, 0u);
}

// A node that was not told that they arrived brings them again.
TEST_F(PassedRowsTest, OfTheSameNumberAreTakenOnce) {
  const auto pass = [&](std::uint32_t epoch, const PassOptions& options) {
    return PassRows(server_->endpoint(), key_, "input", epoch,
                    std::as_bytes(std::span(kChunk.data(), kChunk.size())), {0, 2}, options);
  };
  for (const PassOptions& options : {PassOptions{.from = 1, .number = 1},
                                     {.from = 1, .number = 1},
                                     {.from = 1, .number = 2},
                                     {.from = 2, .number = 1}}) {
    const Status passed = pass(0, options);
    ASSERT_TRUE(passed.ok()) << passed.DebugString();
  }
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Take(0, 0s).ok());
  EXPECT_EQ(Take(0, 0s).status().kind(), ErrorKind::kRetryLater);
  EXPECT_EQ(server_->counters().queued_chunks, 0u);
  ASSERT_TRUE(pass(1, {.from = 1, .number = 1}).ok());
  EXPECT_TRUE(Take(1, 0s).ok()) << "other rows, of another epoch";
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
}

TEST_F(PassedRowsTest, TheInterruptCheckEndsTheWait) {
  const Result<net::TcpListener> silent = net::ListenTcp("127.0.0.1", 0, 0);
  ASSERT_TRUE(silent.ok()) << silent.status().DebugString();
  const Status passed =
      PassRows({.host = "127.0.0.1", .port = silent->port}, key_, "input", 0,
               std::as_bytes(std::span(kChunk.data(), kChunk.size())), {0, 1},
               {.check = [] { return Status(ErrorKind::kInterrupted, "the dataset is gone"); }});
  EXPECT_EQ(passed.kind(), ErrorKind::kInterrupted);
}

TEST_F(PassedRowsTest, NeedAQueueAndANode) {
  const Status unknown = Pass(0, {0, 1}, "nowhere");
  EXPECT_EQ(unknown.kind(), ErrorKind::kBadInput);
  EXPECT_THAT(unknown.ToString(), HasSubstr("pass 1 rows of epoch 0 on to node 0"));
  EXPECT_EQ(server_->NextPassed("nowhere", 0, {}).status().kind(), ErrorKind::kBadInput);
  const Endpoint endpoint = server_->endpoint();
  server_->Close();
  EXPECT_EQ(Take(0).status().kind(), ErrorKind::kReconnect);
  EXPECT_EQ(Pass(0, {0, 1}).kind(), ErrorKind::kReconnect);
}

}  // namespace
}  // namespace tfos::feed
