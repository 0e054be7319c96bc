#include "feed/read/batch_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "chunk/row_structure.h"
#include "feed/read/batch_reader_fixture.h"
#include "feed/read/test_chunks.h"

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST_F(BatchReaderTest, BatchesCrossChunksAndKeepTheOrder) {
  Put(MakeChunk(Wide(), 0, 5));
  Put(MakeChunk(Wide(), 5, 1));
  Put(MakeChunk(Wide(), 6, 5));
  FinishAndEndFeed();
  std::vector<std::int64_t> rows;
  for (const std::uint64_t expected : {4u, 4u, 3u}) {
    const Batch batch = NextBatch(4);
    ASSERT_EQ(batch.rows, expected);
    ASSERT_EQ(batch.columns.size(), 2u);
    const auto x = Numbers<float>(batch.columns[0].data);
    const auto y = Numbers<std::int64_t>(batch.columns[1].data);
    ASSERT_EQ(x.size(), expected * 16);
    for (std::size_t i = 0; i < expected; ++i) {
      EXPECT_EQ(x[i * 16 + 3], static_cast<float>(y[i]) + 1.5F);
      rows.push_back(y[i]);
    }
  }
  EXPECT_THAT(rows, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(Outline(4), ElementsAre("epoch 0", "over"));
  EXPECT_THAT(Outline(4), ElementsAre("over")) << "for ever";
  EXPECT_EQ(reader_->epochs(), 1u);
}

TEST_F(BatchReaderTest, ABatchDoesNotCrossAnEpoch) {
  Put(MakeChunk(Wide(), 0, 5));
  Finish();
  server_->EndEpoch("input", 0);
  client_ = Open(Mode::kTrain, /*until_read=*/false, /*epoch=*/1);
  Put(MakeChunk(Wide(), 0, 5));
  Finish();
  server_->EndEpoch("input", 1);
  server_->EndEpoch("input", 2);
  server_->EndFeed();
  EXPECT_THAT(Outline(3), ElementsAre("3", "2", "epoch 0", "3", "2", "epoch 1", "epoch 2", "over"));
}

TEST_F(BatchReaderTest, AnEpochIsWholeWhenTheDriverHasEndedIt) {
  Put(MakeChunk(Wide(), 0, 5));
  Finish();
  server_->EndEpoch("input", 0);
  client_ = Open(Mode::kTrain, /*until_read=*/false, /*epoch=*/1);
  Put(MakeChunk(Wide(), 0, 2));
  FinishAndEndFeed();
  for (const bool is_whole : {true, false}) {
    NextBatch(5);
    const Result<BatchResult> end = Next(5);
    ASSERT_TRUE(end.ok()) << end.status().DebugString();
    EXPECT_EQ(std::get<EndOfEpoch>(*end).is_whole, is_whole);
  }
  EXPECT_EQ(reader_->epochs(), 2U);
  EXPECT_EQ(reader_->whole_epochs(), 1U);
}

TEST_F(BatchReaderTest, TheRemainderMayBeDropped) {
  Put(MakeChunk(Wide(), 0, 5));
  Finish();
  server_->EndEpoch("input", 0);
  client_ = Open(Mode::kTrain, /*until_read=*/false, /*epoch=*/1);
  Put(MakeChunk(Wide(), 0, 2));
  FinishAndEndFeed();
  EXPECT_THAT(Outline(3, true), ElementsAre("3", "epoch 0", "epoch 1", "over"));
}

TEST_F(BatchReaderTest, PeekGoesAcrossEndsOfEpochsWithoutLosingThem) {
  server_->EndEpoch("input", 0);
  Put(MakeChunk(Wide(), 0, 1));
  FinishAndEndFeed();
  EXPECT_THAT(Outline(3), ElementsAre("epoch 0", "1", "epoch 1", "over"));
}

TEST_F(BatchReaderTest, ANodeThatComesLateReadsPastTheEndsOfEpochsBefore) {
  const Wait wait{.deadline = Deadline::After(kLong)};
  server_->EndEpoch("input", 0);
  EXPECT_EQ(*reader_->EpochToBegin(wait), 0u);
  client_ = Open(Mode::kTrain, /*until_read=*/false, /*epoch=*/2);
  Put(MakeChunk(Wide(), 0, 2));
  ASSERT_TRUE(reader_->Peek({}, wait).ok());
  EXPECT_EQ(*reader_->EpochToBegin(wait), std::nullopt) << "an end was read, and not handed out";
  ASSERT_TRUE(reader_->BeginAt(2, wait).ok());
  EXPECT_EQ(*reader_->EpochToBegin(wait), 2u);
  NextBatch(1);
  EXPECT_EQ(*reader_->EpochToBegin(wait), std::nullopt);
  FinishAndEndFeed();
  EXPECT_THAT(Outline(3), ElementsAre("1", "epoch 2", "over"));
}

TEST_F(BatchReaderTest, AFeedWithoutRowsHasNoColumns) {
  Put(MakeChunk(Wide(), 0, 0));
  FinishAndEndFeed();
  const auto peeked = reader_->Peek({}, {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(peeked.ok()) << peeked.status().DebugString();
  EXPECT_EQ(*peeked, std::nullopt);
  EXPECT_THAT(Outline(3), ElementsAre("over"));
}

TEST_F(BatchReaderTest, ASampleSaysWhatRowsHoldAndIsNoRow) {
  const std::vector<std::byte> chunk = MakeChunk(Wide(), 0, 5);
  Result<std::span<std::byte>> room = client_->Reserve(chunk.size());
  ASSERT_TRUE(room.ok()) << room.status().DebugString();
  std::memcpy(room->data(), chunk.data(), chunk.size());
  ASSERT_TRUE(client_->Commit(chunk.size(), {0, 0}, ReadTracker::kAllRows).ok());
  const auto columns = reader_->Peek({}, {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(columns.ok() && columns->has_value()) << "before the feed has ended";
  ASSERT_EQ((*columns)->size(), 2u);
  EXPECT_EQ((**columns)[0].shape, std::vector<std::uint64_t>{16});
  Finish();
  server_->EndEpoch("input", 0);
  client_ = Open(Mode::kTrain, /*until_read=*/false, /*epoch=*/1);
  Put(MakeChunk(Wide(), 7, 3));
  FinishAndEndFeed();
  EXPECT_THAT(Outline(2), ElementsAre("epoch 0", "2", "1", "epoch 1", "over"));
  EXPECT_EQ(reader_->dropped_rows(), 0u);
}

TEST_F(BatchReaderTest, ColumnsAreNamedByKeyNameOrPosition) {
  const auto names = [&](const std::vector<std::byte>& chunk) {
    Put(chunk);
    Finish();
    client_ = Open(Mode::kTrain);
    BatchReader reader(*server_, "input", nullptr);
    const auto peeked = reader.Peek({}, {.deadline = Deadline::After(kLong)});
    EXPECT_TRUE(peeked.ok()) << peeked.status().DebugString();
    std::vector<std::string> found;
    for (const columns::BatchColumnType& type : **peeked) found.push_back(type.name);
    return found;
  };
  std::vector<TestColumn> columns = Wide();
  columns[1].name = "label";
  EXPECT_THAT(names(MakeChunk(columns, 0, 1)), ElementsAre("0", "label"));
  columns[0].name = "image";
  EXPECT_THAT(names(MakeChunk(columns, 0, 1, chunk::RowNodeKind::kDict)),
              ElementsAre("image", "label"));
  EXPECT_THAT(names(MakeChunk({columns[1]}, 0, 1, chunk::RowNodeKind::kNone)),
              ElementsAre("label"));
  columns[1].name = "";
  EXPECT_THAT(names(MakeChunk({columns[1]}, 0, 1, chunk::RowNodeKind::kNone)), ElementsAre("0"));
}

TEST_F(BatchReaderTest, ColumnsAreChosenAndOrdered) {
  Put(MakeChunk(Wide(), 7, 1));
  columns_ = {{.name = "1", .dtype = kInt64}};
  const Batch batch = NextBatch(1);
  ASSERT_EQ(batch.columns.size(), 1u);
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[0].data), ElementsAre(7));
}

TEST_F(BatchReaderTest, AnInferenceFeedIsRefused) {
  client_ = Open(Mode::kInference);
  Put(MakeChunk(Wide(), 0, 1));
  const auto peeked = reader_->Peek({}, {.deadline = Deadline::After(kLong)});
  ASSERT_FALSE(peeked.ok());
  EXPECT_THAT(peeked.status().ToString(), HasSubstr("data_feed(train=False)"));
}

TEST_F(BatchReaderTest, AWaitThatEndsLosesNoRow) {
  Put(MakeChunk(Wide(), 0, 3));
  const auto types = reader_->Peek({}, {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(types.ok() && *types);
  columns_ = **types;
  const Result<BatchResult> early =
      reader_->Next({.rows = 5, .columns = columns_}, {.deadline = Deadline::After(10ms)});
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.status().kind(), ErrorKind::kRetryLater);
  Finish();
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u) << "nothing is held while it waits";
  client_ = Open(Mode::kTrain);
  Put(MakeChunk(Wide(), 3, 3));
  const Batch first = NextBatch(2);
  EXPECT_THAT(Numbers<std::int64_t>(first.columns[1].data), ElementsAre(0, 1));
  const Batch second = NextBatch(3);
  EXPECT_THAT(Numbers<std::int64_t>(second.columns[1].data), ElementsAre(2, 3, 4));
}

TEST_F(BatchReaderTest, ACallThatWaitsDoesNotHoldUpAnotherOnesDeadlineAndCheck) {
  std::promise<void> waits;
  std::atomic<bool> over = false;
  const auto check = [&, told = false]() mutable {
    if (!std::exchange(told, true)) waits.set_value();
    return Status::Ok();
  };
  std::thread first([&] {
    EXPECT_TRUE(reader_->Peek({}, {.deadline = Deadline::After(kLong), .check = check}).ok());
    over = true;
  });
  waits.get_future().wait();
  const BatchOptions options = {.rows = 1, .columns = {}};
  EXPECT_EQ(reader_->Next(options, {.deadline = Deadline::After(1ms)}).status().kind(),
            ErrorKind::kRetryLater);
  EXPECT_EQ(reader_->EndEpoch({.check = [] { return Status(ErrorKind::kInterrupted, "stop"); }})
                .status()
                .kind(),
            ErrorKind::kInterrupted);
  EXPECT_FALSE(over) << "the first one still waits for rows";
  FinishAndEndFeed();
  first.join();
}

TEST_F(BatchReaderTest, TerminateEndsAWait) {
  columns_ = {{.name = "0", .dtype = kInt64}};
  std::thread consumer([&] { EXPECT_THAT(Outline(4), ElementsAre("over")); });
  server_->Terminate();
  consumer.join();
}

TEST_F(BatchReaderTest, ABatchHasRows) {
  EXPECT_EQ(reader_->Next({.rows = 0}, {}).status().kind(), ErrorKind::kBadInput);
}

TEST_F(BatchReaderTest, AFeederThatAskedHearsWhatWasHandedOut) {
  client_ = Open(Mode::kTrain, /*until_read=*/true);
  Put(MakeChunk(Wide(), 0, 10, chunk::RowNodeKind::kTuple));
  Put(MakeChunk(Wide(), 10, 10, chunk::RowNodeKind::kTuple));
  const auto unread = [&] {
    std::vector<std::uint64_t> rows_read;
    for (const UnreadChunk& chunk : client_->Unread()) rows_read.push_back(chunk.rows_read);
    return rows_read;
  };
  const Batch first = NextBatch(4);
  EXPECT_THAT(unread(), ElementsAre(4, 0));
  const Batch second = NextBatch(4);
  EXPECT_THAT(unread(), ElementsAre(8, 0));
  const Batch third = NextBatch(4);
  EXPECT_THAT(unread(), ElementsAre(2)) << "the first is still held";
  const Batch fourth = NextBatch(4);
  EXPECT_THAT(unread(), ElementsAre(6));
  std::jthread finish([&] { Finish(); });
  // The rest fills no batch, and nobody may wait for more: the next partition may not have begun.
  EXPECT_EQ(reader_->Next({.rows = 8, .columns = columns_}, {.deadline = Deadline::After(300ms)})
                .status()
                .kind(),
            ErrorKind::kRetryLater);
  finish.join();
  server_->EndFeed();
  EXPECT_EQ(NextBatch(8).rows, 4u) << "it is handed out in the end";
}

}  // namespace
}  // namespace tfos::feed
