// Chunks on their way to a node, what they may take of its memory, and attempts at a partition.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "feed/node/feed_transport_fixture.h"

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

TEST_P(FeedTransportTest, ChunksArriveAsTheyWereSent) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  EXPECT_EQ(client->shares_memory(), GetParam() == Channel::kMemory);
  EXPECT_EQ(client->channel() == net::Channel::kTls, GetParam() == Channel::kTls);
  ASSERT_TRUE(Put(*client, "first", 2).ok());
  ASSERT_TRUE(Put(*client, "second", 3).ok());
  const Result<Ended> ended = client->Finish();
  ASSERT_TRUE(ended.ok()) << ended.status().DebugString();
  EXPECT_EQ(ended->accepted_items, 5u);
  EXPECT_FALSE(ended->stopped);

  Result<Next> next = Take();
  ASSERT_TRUE(next.ok());
  auto& loan = std::get<ChunkLoan>(*next);
  EXPECT_EQ(AsString(loan.bytes()), "first");
  EXPECT_EQ(loan.items(), 2u);
  EXPECT_EQ(loan.mode(), Mode::kTrain);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(loan.bytes().data()) % 64, 0u);
  EXPECT_EQ(TakeText(), "second");
  server_->EndFeed();
  EXPECT_EQ(TakeText(), "over");
}

TEST_P(FeedTransportTest, AnEmptyPartitionEnds) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  const Result<Ended> ended = client->Finish();
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->accepted_items, 0u);
}

TEST_P(FeedTransportTest, FarMoreThanTheRegionPassesThroughIt) {
  StartServer(SmallMemory(1));
  constexpr int kChunks = 300;
  std::thread feeder([&] {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
    for (int i = 0; i < kChunks; ++i) {
      const std::size_t size = 1 + static_cast<std::size_t>(i) * 7919 % 40'000;
      ASSERT_TRUE(Put(*client, std::string(size, static_cast<char>('a' + i % 26))).ok());
    }
    ASSERT_TRUE(client->Finish().ok());
  });
  for (int i = 0; i < kChunks; ++i) {
    const std::size_t size = 1 + static_cast<std::size_t>(i) * 7919 % 40'000;
    ASSERT_EQ(TakeText(), std::string(size, static_cast<char>('a' + i % 26))) << i;
  }
  feeder.join();
  EXPECT_EQ(server_->counters().chunks, static_cast<std::uint64_t>(kChunks));
}

TEST_P(FeedTransportTest, AChunkLargerThanTheBudgetPasses) {
  StartServer(SmallMemory(2));
  const std::string large(5 << 20, 'x');
  std::thread feeder([&] {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
    for (const std::string& text : {std::string("small"), large, large, std::string("end")}) {
      ASSERT_TRUE(Put(*client, text).ok());
    }
    ASSERT_TRUE(client->Finish().ok());
  });
  EXPECT_EQ(TakeText(), "small");
  EXPECT_TRUE(TakeText() == large);
  EXPECT_TRUE(TakeText() == large);
  EXPECT_EQ(TakeText(), "end");
  feeder.join();
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
}

TEST_P(FeedTransportTest, TheBudgetHoldsHoweverManyFeed) {
  StartServer(SmallMemory(2));
  constexpr std::uint32_t kFeeders = 6;
  constexpr int kChunks = 40;
  std::vector<std::thread> feeders;
  for (std::uint32_t partition = 0; partition < kFeeders; ++partition) {
    feeders.emplace_back([this, partition] {
      std::unique_ptr<FeedClient> client = Open(Mode::kTrain, partition);
      for (int i = 0; i < kChunks; ++i) {
        ASSERT_TRUE(Put(*client, std::string(9'000, static_cast<char>('a' + partition))).ok());
      }
      ASSERT_TRUE(client->Finish().ok());
    });
  }
  std::vector<int> seen(kFeeders);
  for (std::uint32_t i = 0; i < kFeeders * kChunks; ++i) {
    EXPECT_LE(server_->counters().region_bytes_in_use, 2 * kSmallRegion);
    const std::string text = TakeText();
    ASSERT_EQ(text.size(), 9'000u);
    ++seen[static_cast<std::size_t>(text[0] - 'a')];
  }
  for (std::thread& feeder : feeders) feeder.join();
  EXPECT_THAT(seen, ::testing::Each(kChunks));
  EXPECT_EQ(server_->counters().open_sessions, 0u);
}

TEST_P(FeedTransportTest, SmallPartitionsThatNobodyReadsDoNotFillTheBudget) {
  StartServer(SmallMemory(4));
  for (std::uint32_t partition = 0; partition < 40; ++partition) {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain, partition);
    ASSERT_TRUE(Put(*client, fmt::format("row of {}", partition)).ok());
    ASSERT_TRUE(client->Finish().ok());
  }
  EXPECT_EQ(server_->counters().region_bytes_in_use, 40 * 4096u);
  for (int partition = 0; partition < 40; ++partition) {
    EXPECT_EQ(TakeText(), fmt::format("row of {}", partition));
  }
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
}

TEST_P(FeedTransportTest, CreditShrinksAndComesBack) {
  StartServer(SmallMemory(1));
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  EXPECT_EQ(*client->FreeBytes(), kSmallRegion);
  ASSERT_TRUE(Put(*client, std::string(kSmallRegion / 4, 'x')).ok());
  EXPECT_EQ(*client->FreeBytes(), kSmallRegion / 4 * 3);
  TakeText();
  EXPECT_TRUE(Eventually([&] { return *client->FreeBytes() == kSmallRegion; }));
}

TEST_P(FeedTransportTest, LoansMayBeReturnedInAnyOrder) {
  StartServer(SmallMemory(1));
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  const std::string half(kSmallRegion / 2, 'x');
  ASSERT_TRUE(Put(*client, half).ok());
  ASSERT_TRUE(Put(*client, half).ok());
  Result<Next> first = Take();
  Result<Next> second = Take();
  ASSERT_TRUE(first.ok() && second.ok());
  std::get<ChunkLoan>(*second).Release();
  EXPECT_EQ(*client->FreeBytes(), 0u) << "the older chunk is still lent";
  std::get<ChunkLoan>(*first).Release();
  EXPECT_TRUE(Eventually([&] { return *client->FreeBytes() == kSmallRegion; }));
}

TEST_P(FeedTransportTest, ALoanOutlivesFeederAndServer) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  ASSERT_TRUE(Put(*client, "still here").ok());
  Result<Next> next = Take();
  ASSERT_TRUE(next.ok());
  client.reset();
  server_.reset();
  EXPECT_EQ(AsString(std::get<ChunkLoan>(*next).bytes()), "still here");
}

TEST_P(FeedTransportTest, WhatABrokenTrainingFeederBroughtIsStillConsumed) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  ASSERT_TRUE(Put(*client, "one").ok());
  ASSERT_TRUE(Put(*client, "two").ok());
  EXPECT_TRUE(Eventually([&] { return server_->counters().chunks == 2; }));
  client.reset();
  EXPECT_TRUE(Eventually([&] { return server_->counters().open_sessions == 0; }));
  EXPECT_EQ(server_->counters().broken_sessions, 1u);
  EXPECT_EQ(TakeText(), "one");
  EXPECT_EQ(TakeText(), "two");
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
}

TEST_P(FeedTransportTest, TheNodeSaysWhichItemsItHas) {
  StartServer(SmallMemory(1));
  const PartitionKey key{.job = {9}, .epoch = 0, .partition = 5};
  {
    std::unique_ptr<FeedClient> client = Connect();
    EXPECT_THAT(RangesOf(*client->Count(key, 0)), IsEmpty());
    ASSERT_TRUE(client->Open({.key = key}).ok()) << "on the same connection";
    ASSERT_TRUE(Put(*client, "rows", 7).ok());
    ASSERT_TRUE(Put(*client, "no rows", 0, 7).ok());
    ASSERT_TRUE(Put(*client, "later rows", 2, 10).ok());
    EXPECT_TRUE(Eventually([&] { return server_->counters().chunks == 3; }));
  }
  for (int i = 0; i < 3; ++i) TakeText();
  {
    std::unique_ptr<FeedClient> client = Connect();
    EXPECT_THAT(RangesOf(*client->Count(key, 0)), ElementsAre(ItemRange{0, 7}, ItemRange{10, 12}));
    ASSERT_TRUE(client->Open({.key = key}).ok());
    ASSERT_TRUE(Put(*client, "more", 3, 7).ok());
    const Result<Ended> ended = client->Finish();
    ASSERT_TRUE(ended.ok());
    EXPECT_EQ(ended->accepted_items, 3u);
  }
  EXPECT_THAT(RangesOf(*Connect()->Count(key, 2)), ElementsAre(ItemRange{0, 12}));
  EXPECT_THAT(RangesOf(*Connect()->Count({.job = {9}, .epoch = 1, .partition = 5}, 0)), IsEmpty());
}

TEST_P(FeedTransportTest, CountingNeedsNoMemoryAndLeavesNoTrace) {
  StartServer(SmallMemory(1));
  std::unique_ptr<FeedClient> holder = Open(Mode::kTrain, 1);
  {
    std::unique_ptr<FeedClient> client = Connect();
    EXPECT_TRUE(client->Count({.partition = 2}, 0).ok());
    EXPECT_EQ(server_->counters().open_sessions, 1u);
  }
  ASSERT_TRUE(holder->Finish().ok());
  EXPECT_EQ(server_->counters().broken_sessions, 0u);
}

TEST_P(FeedTransportTest, ALongAnswerComesInPieces) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  constexpr std::uint64_t kChunks = 5'000;
  for (std::uint64_t i = 0; i < kChunks; ++i) ASSERT_TRUE(Put(*client, "x", 1, 2 * i).ok());
  ASSERT_TRUE(client->Finish().ok());
  const Result<Counted> counted = Connect()->Count({}, 1);
  ASSERT_TRUE(counted.ok()) << counted.status().DebugString();
  EXPECT_EQ(RangesOf(*counted).size(), kChunks);
  EXPECT_EQ(RangesOf(*counted).back(), (ItemRange{2 * kChunks - 2, 2 * kChunks - 1}));
}

TEST_P(FeedTransportTest, ANewerAttemptTakesAPartitionOver) {
  StartServer();
  std::unique_ptr<FeedClient> old = Connect();
  ASSERT_TRUE(old->Open({.key = {.partition = 5}, .attempt = 0}).ok());
  ASSERT_TRUE(Put(*old, "rows", 7).ok());
  EXPECT_TRUE(Eventually([&] { return server_->counters().items == 7; }));
  std::unique_ptr<FeedClient> fresh = Connect();
  const Result<Counted> counted = fresh->Count({.partition = 5}, 1);
  ASSERT_TRUE(counted.ok());
  EXPECT_THAT(RangesOf(*counted), ElementsAre(ItemRange{0, 7}));
  const Result<Ended> ended = old->Finish();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.status().kind(), ErrorKind::kSuperseded);
  EXPECT_THAT(ended.status().ToString(),
              HasSubstr("task attempt 1 at the same partition took over"));
  // Nor may it come back.
  EXPECT_EQ(Connect()->Count({.partition = 5}, 0).status().kind(), ErrorKind::kSuperseded);
  EXPECT_EQ(Connect()->Open({.key = {.partition = 5}}).status().kind(), ErrorKind::kSuperseded);
  ASSERT_TRUE(fresh->Open({.key = {.partition = 5}, .attempt = 1}).ok());
  ASSERT_TRUE(Put(*fresh, "rest", 3, 7).ok());
  EXPECT_TRUE(fresh->Finish().ok());
  EXPECT_EQ(server_->counters().items, 10u);
}

TEST_P(FeedTransportTest, QueuesAreKeptApart) {
  FeedServerOptions options;
  options.queues = {"input", "other"};
  StartServer(std::move(options));
  std::unique_ptr<FeedClient> client = Connect();
  ASSERT_TRUE(client->Open({.queue = "other"}).ok());
  ASSERT_TRUE(Put(*client, "for other").ok());
  const Wait wait{.deadline = Deadline::After(kLong)};
  const Result<Next> next = server_->Next("other", wait);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(AsString(std::get<ChunkLoan>(*next).bytes()), "for other");
  const Status empty = server_->Next("input", {.deadline = Deadline::After(1ms)}).status();
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.kind(), ErrorKind::kRetryLater);
  EXPECT_EQ(server_->Next("nobody", wait).status().kind(), ErrorKind::kBadInput);
  const Status unknown = Connect()->Open({.queue = "nobody"}).status();
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.kind(), ErrorKind::kBadInput);
  EXPECT_THAT(unknown.ToString(), HasSubstr("no queue 'nobody'"));
}

TEST_P(FeedTransportTest, WrongCallsAreRefused) {
  StartServer();
  std::unique_ptr<FeedClient> client = Connect();
  EXPECT_FALSE(client->Reserve(10).ok()) << "before Open";
  ASSERT_TRUE(client->Open({}).ok());
  EXPECT_FALSE(client->Open({}).ok()) << "twice";
  EXPECT_FALSE(client->Reserve(0).ok());
  EXPECT_FALSE(client->Commit(1, {0, 1}).ok()) << "nothing is reserved";
  ASSERT_TRUE(client->Reserve(10).ok());
  EXPECT_FALSE(client->Count({}, 0).ok()) << "after Open";
  EXPECT_FALSE(client->Commit(11, {0, 1}).ok());
  ASSERT_TRUE(client->Commit(10, {0, 1}).ok());
  ASSERT_TRUE(client->Finish().ok());
  EXPECT_FALSE(client->Reserve(10).ok()) << "after End";
}

}  // namespace
}  // namespace tfos::feed
