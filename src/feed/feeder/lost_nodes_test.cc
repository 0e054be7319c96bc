// What becomes of the rows of a node that dies.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "feed/feeder/partition_writer_fixture.h"
#include "feed/wire/read_position.h"

namespace tfos::feed {
namespace {

using namespace std::chrono_literals;

/// With a node that dies, in shared memory and over TCP.
class LostNodeTest : public PartitionWriterTest, public ::testing::WithParamInterface<bool> {
 protected:
  PartitionWriterOptions Options(std::uint32_t partition) const {
    PartitionWriterOptions options = PartitionWriterTest::Options(partition);
    options.session.until_read = true;
    if (GetParam()) {
      for (Endpoint& endpoint : options.endpoints) endpoint.unix_name.clear();
    }
    return options;
  }

  static ChunkLoan TakeLoan(FeedServer& server) {
    Result<Next> next = server.Next("input", {.deadline = Deadline::After(kLong)});
    EXPECT_TRUE(next.ok() && std::holds_alternative<ChunkLoan>(*next));
    return next.ok() ? std::move(std::get<ChunkLoan>(*next)) : ChunkLoan();
  }

  static std::string TextOf(const ChunkLoan& loan) {
    return {reinterpret_cast<const char*>(loan.bytes().data()), loan.bytes().size()};
  }
};

INSTANTIATE_TEST_SUITE_P(Channels, LostNodeTest, ::testing::Bool(), [](const auto& param_info) {
  return param_info.param ? "Tcp" : "SharedMemory";
});

TEST_P(LostNodeTest, APartitionEndsWhenItIsRead) {
  StartServers(1, 4);
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(Options(0));
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  ASSERT_TRUE(Put(**writer, "one", 0).ok());
  ASSERT_TRUE(Put(**writer, "two", 1).ok());
  std::atomic<bool> ended = false;
  std::jthread finish([&] {
    EXPECT_TRUE((*writer)->Finish().ok());
    ended = true;
  });
  const ChunkLoan one = TakeLoan(*servers_[0]);
  const ChunkLoan two = TakeLoan(*servers_[0]);
  two.MarkRead(ReadTracker::kAllRows);
  one.MarkRead(5);
  EXPECT_EQ(servers_[0]->counters().open_sessions, 1u);
  one.MarkRead(ReadTracker::kAllRows);  // Both are still lent out.
  finish.join();
  EXPECT_TRUE(ended);
}

// Covers: node killed / feeding
TEST_P(LostNodeTest, WhatItHadNotReadGoesToAnother) {
  StartServers(2, 4);
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(Options(0));
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (std::uint64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(Put(**writer, std::string(1000, static_cast<char>('a' + i)), i).ok());
  }
  // They take turns: a, c, e goes there.
  const Deadline in_time = Deadline::After(kLong);
  while (servers_[0]->counters().items < 3 && !in_time.passed()) std::this_thread::yield();
  TakeLoan(*servers_[0]).Release();
  ChunkLoan half = TakeLoan(*servers_[0]);
  EXPECT_EQ(TextOf(half), std::string(1000, 'c'));
  half.MarkRead(7);
  ASSERT_TRUE(Put(**writer, std::string(1000, 'g'), 6).ok());
  End(0);
  std::atomic<bool> ended = false;
  std::jthread finish([&] {
    const Result<Ended> end = (*writer)->Finish();
    EXPECT_TRUE(end.ok()) << end.status().DebugString();
    EXPECT_EQ(end.ok() ? end->accepted_items : 0, 7u);
    ended = true;
  });
  std::string got;
  while (!ended) {
    const Result<Next> next = servers_[1]->Next("input", {.deadline = Deadline::After(1ms)});
    if (!next.ok()) continue;
    const auto& loan = std::get<ChunkLoan>(*next);
    got += TextOf(loan).front();
    if (got.back() == 'c' && !GetParam()) {
      EXPECT_EQ(loan.rows_read(), 7u);
    }
  }
  std::ranges::sort(got);
  // Over TCP the word that the first was read may have come too late.
  if (GetParam() && got.starts_with('a')) got.erase(0, 1);
  EXPECT_EQ(got, "bcdefg");
  EXPECT_GE((*writer)->moved_items(), 2u);
}

TEST_P(LostNodeTest, LosingAllIsAFailure) {
  StartServers(2, 4);
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(Options(0));
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(Put(**writer, "row", i).ok());
  for (std::uint32_t i = 0; i < 2; ++i) End(i);
  const Result<Ended> ended = (*writer)->Finish();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.status().kind(), ErrorKind::kReconnect) << ended.status().DebugString();
}

TEST_P(LostNodeTest, WhereTheDriverFeedsAgainTheTaskGoesOn) {
  StartServers(2, 4);
  PartitionWriterOptions options = Options(0);
  options.session.until_read = false;
  options.bears_losses = true;
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (std::uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(Put(**writer, "row", i).ok());
  End(0);
  for (std::uint64_t i = 2; i < 6; ++i) ASSERT_TRUE(Put(**writer, "row", i).ok());
  Result<Ended> ended = (*writer)->Finish();
  ASSERT_TRUE(ended.ok()) << ended.status().DebugString();
  const std::uint64_t here = servers_[1]->counters().items;
  EXPECT_LT(here, 6u);
  EXPECT_EQ((*writer)->moved_items(), 0u);
  // The job that feeds again brings what the other one had got, and nothing else.
  options.session.attempt += 1;
  options.repeats = true;
  writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (std::uint64_t i = 0; i < 6; ++i) {
    if ((*writer)->delivered().From(i).contained) continue;
    ASSERT_TRUE(Put(**writer, "row", i).ok());
  }
  ended = (*writer)->Finish();
  ASSERT_TRUE(ended.ok()) << ended.status().DebugString();
  EXPECT_EQ((*writer)->moved_items(), 6 - here);
  EXPECT_EQ(servers_[1]->counters().items, 6u);
}

TEST_P(LostNodeTest, WithoutUntilReadItIsAFailure) {
  StartServers(2, 4);
  PartitionWriterOptions options = Options(0);
  options.session.until_read = false;
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(std::move(options));
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (std::uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(Put(**writer, "row", i).ok());
  End(0);
  Status status;
  for (std::uint64_t i = 2; i < 6 && status.ok(); ++i) status = Put(**writer, "row", i);
  if (status.ok()) status = (*writer)->Finish().status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kReconnect) << status.DebugString();
}

// Else the next attempt would take them for delivered, and nobody would hold them any more.
TEST_P(LostNodeTest, WhatADeadTaskLeftUnreadIsFedAgain) {
  StartServers(2, 4);
  Result<std::unique_ptr<PartitionWriter>> first = PartitionWriter::Open(Options(0));
  ASSERT_TRUE(first.ok()) << first.status().DebugString();
  for (std::uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(Put(**first, "row", i).ok());
  const ChunkLoan held = TakeLoan(*servers_[0]);
  first->reset();
  PartitionWriterOptions options = Options(0);
  options.session.attempt = 1;
  Result<std::unique_ptr<PartitionWriter>> second = PartitionWriter::Open(std::move(options));
  ASSERT_TRUE(second.ok()) << second.status().DebugString();
  EXPECT_EQ((*second)->delivered().items(), 1u) << "the one that the program has";
  EXPECT_EQ(servers_[0]->counters().withdrawn_items + servers_[1]->counters().withdrawn_items, 5u);
}

TEST_P(LostNodeTest, AChunkThatGoesAloneIsFollowedToo) {
  StartServers(2, 4);
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(Options(0));
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  const std::string huge(2 * kSmallRegion, 'h');
  std::jthread feeder([&] {
    EXPECT_TRUE(Put(**writer, huge, 0).ok());
    EXPECT_TRUE((*writer)->Finish().ok());
  });
  std::uint32_t victim = 0;
  const Deadline in_time = Deadline::After(kLong);
  while (servers_[victim]->counters().items == 0 && !in_time.passed()) victim = 1 - victim;
  End(victim);
  EXPECT_TRUE(Take(*servers_[1 - victim]) == huge);
}

TEST_P(LostNodeTest, AChunkMayMoveTwice) {
  StartServers(3, 4);
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(Options(0));
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (std::uint64_t i = 0; i < 9; ++i) ASSERT_TRUE(Put(**writer, std::to_string(i), i).ok());
  End(0);
  ASSERT_TRUE(Put(**writer, "9", 9).ok());
  End(1);
  std::atomic<bool> ended = false;
  std::jthread finish([&] {
    EXPECT_TRUE((*writer)->Finish().ok());
    ended = true;
  });
  std::string got;
  while (!ended) got += Take(*servers_[2], 1ms);
  std::ranges::sort(got);
  EXPECT_EQ(got, "0123456789");
}

TEST_P(LostNodeTest, InferenceAndReplaysDoNotLastUntilRead) {
  StartServers(1, 4);
  PartitionWriterOptions inference = Options(0);
  inference.session.mode = Mode::kInference;
  PartitionWriterOptions replayed = Options(1);
  replayed.session.replay = {.place = CachePlace::kMemory, .epochs = 1};
  for (const PartitionWriterOptions& options : {inference, replayed}) {
    const Status status = PartitionWriter::Open(options).status();
    EXPECT_THAT(status.ToString(), ::testing::HasSubstr("is for training and not replayed"));
  }
}

}  // namespace
}  // namespace tfos::feed
