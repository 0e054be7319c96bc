// What a reader says was trained on, and what the next cluster's reader then leaves out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "feed/read/batch_reader_fixture.h"
#include "feed/read/position/merged_position.h"

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

/// Rows are int64 with their numbers; an item is a row.
class TrainedRowsTest : public BatchReaderTest {
 protected:
  void SetUp() override {
    BatchReaderTest::SetUp();
    reader_->KeepLog();
  }

  /// A node of the next cluster. Its program is not to get what was trained on if the feeders are
  /// `without_trained`.
  void StartAnew(const std::vector<TrainedRows>& position, bool without_trained = true) {
    std::vector<PartlyTrained> trained;
    for (const TrainedRows& line : position) {
      if (trained.empty() || trained.back().chunk != line.chunk) {
        trained.push_back({.partition = line.partition, .chunk = line.chunk, .rows = {}});
      }
      trained.back().rows.Add(line.trained);
    }
    client_.reset();
    reader_.reset();
    auto server = FeedServer::Start({.key = key_,
                                     .cluster_id = "c1",
                                     .trained_queue = "input",
                                     .trained_before = std::move(trained),
                                     .bind_address = ""});
    ASSERT_TRUE(server.ok()) << server.status().DebugString();
    server_ = std::move(*server);
    reader_ = std::make_unique<BatchReader>(*server_, "input", nullptr);
    reader_->KeepLog();
    partitions_ = 0;
    without_trained_ = without_trained;
    client_ = Open(Mode::kTrain);
  }

  void PutRows(std::uint64_t first, std::uint64_t count) {
    const std::vector<std::byte> chunk =
        MakeChunk({{.kind = chunk::RowNodeKind::kInt, .dtype = kInt64}}, first, count,
                  chunk::RowNodeKind::kNone);
    Result<std::span<std::byte>> room = client_->Reserve(chunk.size());
    ASSERT_TRUE(room.ok()) << room.status().DebugString();
    std::memcpy(room->data(), chunk.data(), chunk.size());
    ASSERT_TRUE(client_->Commit(chunk.size(), {first, first + count}).ok());
  }

  std::vector<std::int64_t> TakeRows(std::uint64_t rows) {
    const Batch batch = NextBatch(rows);
    return batch.columns.empty() ? std::vector<std::int64_t>()
                                 : Numbers<std::int64_t>(batch.columns[0].data);
  }

  /// As it is after so many batches of an epoch, if only this node trains.
  std::vector<TrainedRows> PositionAfter(std::uint64_t batches, std::uint32_t epoch = 0) {
    const auto own = reader_->PositionAfter(epoch, batches);
    EXPECT_TRUE(own.has_value());
    if (!own) return {};
    const std::vector<std::uint64_t> numbers = Encode(0, *own);
    auto merged = Merged({numbers}, {});
    EXPECT_TRUE(merged.ok()) << merged.status().DebugString();
    return merged.ok() ? std::move(*merged) : std::vector<TrainedRows>();
  }

  static std::vector<ItemRange> RowsOf(const std::vector<TrainedRows>& position) {
    std::vector<ItemRange> rows;
    for (const TrainedRows& line : position) rows.push_back(line.trained);
    return rows;
  }
};

TEST_F(TrainedRowsTest, AreThoseOfTheBatches) {
  PutRows(0, 5);
  PutRows(5, 4);
  EXPECT_THAT(TakeRows(3), ElementsAre(0, 1, 2));
  EXPECT_THAT(TakeRows(3), ElementsAre(3, 4, 5));
  const std::vector<TrainedRows> position = PositionAfter(2);
  ASSERT_EQ(position.size(), 2u);
  EXPECT_EQ(position[0].chunk.items, (ItemRange{0, 5}));
  EXPECT_EQ(position[0].rows, 5u);
  EXPECT_EQ(position[0].trained, (ItemRange{0, 5}));
  EXPECT_EQ(position[1].chunk.items, (ItemRange{5, 9}));
  EXPECT_EQ(position[1].trained, (ItemRange{0, 1}));
  EXPECT_NE(position[0].chunk.checksum, position[1].chunk.checksum);
}

TEST_F(TrainedRowsTest, AreKnownOfRowsThatHaveWaitedForTheRestOfTheirBatch) {
  PutRows(0, 5);
  EXPECT_THAT(TakeRows(2), ElementsAre(0, 1));
  EXPECT_THAT(TakeRows(2), ElementsAre(2, 3));
  // The reader gives its feeder the memory back meanwhile, and keeps a copy of row 4.
  const Result<BatchResult> late =
      reader_->Next({.rows = 2, .columns = columns_}, {.deadline = Deadline::After(200ms)});
  EXPECT_EQ(late.status().kind(), ErrorKind::kRetryLater);
  PutRows(5, 3);
  EXPECT_THAT(TakeRows(2), ElementsAre(4, 5));
  EXPECT_THAT(RowsOf(PositionAfter(2)), ElementsAre(ItemRange{0, 4}));
  EXPECT_THAT(RowsOf(PositionAfter(3)), ElementsAre(ItemRange{0, 5}, ItemRange{0, 1}));
}

TEST_F(TrainedRowsTest, AreNotForTheNextProgram) {
  PutRows(0, 5);
  PutRows(5, 6);
  EXPECT_THAT(TakeRows(7), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  std::vector<TrainedRows> position = PositionAfter(1);
  // As where another node had taken over rows of the end.
  position.push_back(position[1]);
  position.back().trained = {3, 5};
  StartAnew(position);
  PutRows(5, 6);
  PutRows(11, 2);
  EXPECT_THAT(TakeRows(3), ElementsAre(7, 10, 11));
  EXPECT_EQ(server_->counters().rows_read_elsewhere, 4u);
  EXPECT_THAT(RowsOf(PositionAfter(1)),
              ElementsAre(ItemRange{2, 3}, ItemRange{5, 6}, ItemRange{0, 1}));
  EXPECT_THAT(TakeRows(1), ElementsAre(12));
}

TEST_F(TrainedRowsTest, AreLeftOutOfTheSameChunkOfTheFirstEpochAlone) {
  PutRows(0, 5);
  EXPECT_THAT(TakeRows(2), ElementsAre(0, 1));
  StartAnew(PositionAfter(1));
  PutRows(1, 5);  // Others.
  EXPECT_THAT(TakeRows(5), ElementsAre(1, 2, 3, 4, 5));
  PutRows(0, 5);
  EXPECT_THAT(TakeRows(3), ElementsAre(2, 3, 4));
  ASSERT_TRUE(client_->Finish().ok());
  partitions_ = 0;
  client_ = Open(Mode::kTrain, false, 1);
  const Result<BatchResult> end = Next(1);
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(std::holds_alternative<EndOfEpoch>(*end));
  PutRows(0, 5);
  EXPECT_THAT(TakeRows(5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(RowsOf(PositionAfter(1, 1)), ElementsAre(ItemRange{0, 5}));
}

TEST_F(TrainedRowsTest, AreForTheNextProgramIfTheEpochBeginsAnew) {
  PutRows(0, 5);
  EXPECT_THAT(TakeRows(2), ElementsAre(0, 1));
  StartAnew(PositionAfter(1), /*without_trained=*/false);
  PutRows(0, 5);
  EXPECT_THAT(TakeRows(5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(server_->counters().rows_read_elsewhere, 0u);
}

TEST_F(TrainedRowsTest, OfAnEpochWithoutRowsHereAreNone) {
  EXPECT_THAT(PositionAfter(0), IsEmpty());
  EXPECT_FALSE(reader_->PositionAfter(0, 1));
  reader_->NoteEmptyBatch(0);
  EXPECT_THAT(PositionAfter(1), IsEmpty()) << "of zeros";
}

}  // namespace
}  // namespace tfos::feed
