// Which rows of a partition are sent, and how their failures are told apart.

#include "feed/feeder/partition_feeder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "arrow/export.h"
#include "base/format.h"
#include "feed/node/feed_server.h"

namespace tfos::feed {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::uint64_t kRegion = 64 * 1024;

/// A record batch of one column x, which counts from `first` on; `null` is the row without a value.
class Batch {
 public:
  Batch(std::int64_t first, std::size_t rows, std::size_t null = SIZE_MAX) {
    auto values = std::make_shared<std::vector<std::int64_t>>(rows);
    std::iota(values->begin(), values->end(), first);
    auto valid = std::make_shared<std::vector<std::uint8_t>>(rows / 8 + 1, 0xFF);
    const bool nullable = null < rows;
    if (nullable) (*valid)[null / 8] ^= static_cast<std::uint8_t>(1U << (null % 8));
    arrow::Field column{.name = "x",
                        .format = "l",
                        .length = rows,
                        .nulls = nullable ? 1u : 0u,
                        .buffers = {nullable ? valid->data() : nullptr, values->data()},
                        .memory = {values, valid},
                        .children = {}};
    arrow::Field batch{.name = "",
                       .format = "+s",
                       .length = rows,
                       .buffers = {nullptr},
                       .memory = {},
                       .children = {std::move(column)}};
    schema_ = arrow::ExportSchema(batch);
    array_ = arrow::ExportArray(std::move(batch));
    auto columns = columns::ArrowColumns::Open(schema_, array_, columns::Decimals::kRefuse);
    EXPECT_TRUE(columns.ok()) << columns.status().DebugString();
    columns_ = std::move(*columns);
  }
  ~Batch() {
    schema_.release(&schema_);
    array_.release(&array_);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  columns::ArrowColumns& columns() { return *columns_; }

 private:
  ArrowSchema schema_;
  ArrowArray array_;
  std::unique_ptr<columns::ArrowColumns> columns_;
};

class PartitionFeederTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<FeedServer>> server = FeedServer::Start(
        {.key = key_, .cluster_id = "c1", .bind_address = "127.0.0.1", .region_bytes = kRegion});
    ASSERT_TRUE(server.ok()) << server.status().DebugString();
    server_ = std::move(*server);
  }

  std::unique_ptr<PartitionFeeder> Open(AttemptId attempt = 0) {
    PartitionWriterOptions options;
    options.endpoints = {server_->endpoint()};
    options.key = key_;
    options.session.attempt = attempt;
    options.session.region_bytes = kRegion;
    options.check_retries = check_retries_;
    options.trained = trained_;
    auto feeder = PartitionFeeder::Open(std::move(options));
    EXPECT_TRUE(feeder.ok()) << feeder.status().DebugString();
    return feeder.ok() ? std::move(*feeder) : nullptr;
  }

  /// The values of the next `count` chunks, which all have been sent.
  std::vector<std::int64_t> Take(int count) {
    std::vector<std::int64_t> values;
    for (; count > 0; --count) {
      const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(60s)});
      if (!next.ok() || !std::holds_alternative<ChunkLoan>(*next)) {
        ADD_FAILURE() << "no chunk";
        break;
      }
      const Result<chunk::ChunkView> chunk =
          chunk::ChunkView::Parse(std::get<ChunkLoan>(*next).bytes());
      EXPECT_TRUE(chunk.ok()) << chunk.status().DebugString();
      for (std::int64_t row = 0; chunk.ok() && row < chunk->rows(); ++row) {
        values.push_back(
            Load<std::int64_t>(chunk->columns()[0].Value(static_cast<std::uint64_t>(row)).data()));
      }
    }
    return values;
  }

  /// Writes each byte of the text as a batch.
  static Status WriteBytes(PartitionFeeder& feeder, std::string_view text) {
    const std::vector<std::uint64_t> sizes(text.size(), 1);
    return feeder
        .WritePickled(sizes, [&](std::size_t i, std::byte* to) { std::memcpy(to, &text[i], 1); })
        .status();
  }

  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
  std::unique_ptr<FeedServer> server_;
  bool check_retries_ = true;
  std::vector<TrainedChunk> trained_;
};

TEST_F(PartitionFeederTest, ALaterAttemptSendsWhatTheNodesLack) {
  {
    const auto first = Open(0);
    Batch batch(0, 5);
    ASSERT_TRUE(first->Write(batch.columns(), 0, 2).ok());
    // Rows 2 and 3 never get there.
    const std::vector<PartitionFeeder::Piece> lost = first->Take(2);
    ASSERT_EQ(lost.size(), 1u);
    EXPECT_EQ(lost[0].items, (ItemRange{2, 4}));
    ASSERT_TRUE(first->Write(batch.columns(), 4, 5).ok());
    ASSERT_TRUE(first->Finish().ok());
    EXPECT_EQ(first->delivered_items(), 3u);
  }
  const auto second = Open(1);
  Batch batch(-1, 8);
  const Result<std::uint64_t> skipped = second->Write(batch.columns(), 1, 3);
  ASSERT_TRUE(skipped.ok());
  EXPECT_EQ(*skipped, 0u);
  const Result<std::uint64_t> written = second->Write(batch.columns(), 3, 8);
  ASSERT_TRUE(written.ok()) << written.status().DebugString();
  EXPECT_GT(*written, 0u);
  ASSERT_TRUE(second->Finish().ok());
  EXPECT_EQ(second->delivered_items(), 7u);
  EXPECT_THAT(Take(4), ElementsAre(0, 1, 4, 2, 3, 5, 6));
}

/// An earlier attempt that delivers the chunks [0, 3), [3, 5) and [8, 10).
class RetryTest : public PartitionFeederTest {
 protected:
  void SetUp() override {
    PartitionFeederTest::SetUp();
    const auto first = Open(0);
    Batch batch(0, 10);
    ASSERT_TRUE(first->Write(batch.columns(), 0, 3).ok());
    ASSERT_TRUE(first->Write(batch.columns(), 3, 5).ok());
    (void)first->Take(3);
    ASSERT_TRUE(first->Write(batch.columns(), 8, 10).ok());
    ASSERT_TRUE(first->Finish().ok());
  }

  /// As tasks do: brings `batch` as Ahead says, four rows at most.
  static Status Bring(PartitionFeeder& feeder, Batch& batch) {
    for (std::size_t row = 0; row < batch.columns().rows();) {
      const PartitionFeeder::Stretch ahead = feeder.Ahead();
      const std::uint64_t rows =
          ahead.delivered ? ahead.items : std::min<std::uint64_t>(4, ahead.items);
      const std::size_t end = std::min<std::size_t>(row + rows, batch.columns().rows());
      TFOS_RETURN_IF_ERROR(feeder.Write(batch.columns(), row, end).status());
      row = end;
    }
    return feeder.Finish().status();
  }
};

TEST_F(RetryTest, TheSameRowsGoOnHoweverChunksAreCut) {
  const auto feeder = Open(1);
  Batch batch(0, 12);
  EXPECT_TRUE(feeder->Ahead().delivered);
  EXPECT_EQ(feeder->Ahead().items, 3u);
  const Status status = Bring(*feeder, batch);
  EXPECT_TRUE(status.ok()) << status.DebugString();
  EXPECT_EQ(feeder->delivered_items(), 12u);
  EXPECT_THAT(Take(5), ElementsAre(0, 1, 2, 3, 4, 8, 9, 5, 6, 7, 10, 11));
}

TEST_F(RetryTest, RowsInAnotherOrderAreFoundOut) {
  const auto feeder = Open(1);
  Batch batch(100, 12);
  const Status status = Bring(*feeder, batch);
  EXPECT_EQ(status.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(status.ToString(),
              AllOf(HasSubstr("partition 0: items 0 to 2 are not those that an earlier attempt"),
                    HasSubstr("sort by a key"), HasSubstr("persist()"), HasSubstr("checkpoint()")));
}

TEST_F(RetryTest, ALaterChunkIsComparedToo) {
  const auto feeder = Open(1);
  Batch same(0, 8);
  Batch other(9, 2);  // 9 and 10, where 8 and 9 were.
  ASSERT_TRUE(feeder->Write(same.columns(), 0, 8).ok()) << "two chunks and a gap";
  const Status status = feeder->Write(other.columns(), 0, 2).status();
  EXPECT_THAT(status.ToString(), HasSubstr("items 8 to 9 are not those"));
}

TEST_F(RetryTest, FewerRowsThanBeforeAreFoundOut) {
  for (const std::size_t rows : {std::size_t{4}, std::size_t{8}, std::size_t{9}}) {
    const auto feeder = Open(rows);
    Batch batch(0, rows);
    const Status status = Bring(*feeder, batch);
    EXPECT_EQ(status.kind(), ErrorKind::kUnsupported) << rows;
    EXPECT_THAT(status.ToString(),
                HasSubstr(fmt::format("it has {} items, and had 10 at least, of those", rows)));
  }
}

TEST_F(RetryTest, NothingIsComparedWhereTheUserSaysSo) {
  check_retries_ = false;
  const auto feeder = Open(1);
  EXPECT_FALSE(feeder->Ahead().delivered);
  Batch batch(100, 12);
  EXPECT_TRUE(Bring(*feeder, batch).ok());
  EXPECT_EQ(feeder->delivered_items(), 12u);
}

/// An earlier cluster that has got the chunks [0, 3), [3, 5) and [8, 10), and trained on all rows
/// of the first, on some of the second, and on none of the third.
class TrainedRowsTest : public RetryTest {
 protected:
  void SetUp() override {
    RetryTest::SetUp();
    for (const ItemRange& items : {ItemRange{0, 3}, ItemRange{3, 5}}) {
      const auto next = server_->Next("input", {.deadline = Deadline::After(60s)});
      ASSERT_TRUE(next.ok());
      trained_.push_back(
          {.chunk = {.items = items, .checksum = std::get<ChunkLoan>(*next).checksum()},
           .whole = items.begin == 0});
    }
    // Another cluster.
    PartitionFeederTest::SetUp();
  }
};

TEST_F(TrainedRowsTest, AreLeftOutAndTheChunkWithSomeComesAsItWas) {
  const auto feeder = Open();
  Batch batch(0, 12);
  const Status status = Bring(*feeder, batch);
  ASSERT_TRUE(status.ok()) << status.DebugString();
  EXPECT_EQ(feeder->delivered_items(), 9u) << "those of this cluster";
  const auto next = server_->Next("input", {.deadline = Deadline::After(60s)});
  ASSERT_TRUE(next.ok());
  const auto& part = std::get<ChunkLoan>(*next);
  EXPECT_EQ(part.first_item(), 3u);
  EXPECT_EQ(part.items(), 2u);
  EXPECT_EQ(part.checksum(), trained_[1].chunk.checksum);
  EXPECT_THAT(Take(2), ElementsAre(5, 6, 7, 8, 9, 10, 11));
}

TEST_F(TrainedRowsTest, ARetryDoesNotBringThatChunkAgain) {
  {
    const auto first = Open(0);
    Batch batch(0, 12);
    ASSERT_TRUE(first->Write(batch.columns(), 0, 5).ok());
    ASSERT_TRUE(first->Finish().ok());
  }
  const auto second = Open(1);
  Batch batch(0, 12);
  const Status status = Bring(*second, batch);
  ASSERT_TRUE(status.ok()) << status.DebugString();
  EXPECT_EQ(second->delivered_items(), 9u);
  EXPECT_THAT(Take(3), ElementsAre(3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST_F(TrainedRowsTest, OtherRowsAreFoundOut) {
  Batch other(100, 12);
  EXPECT_THAT(
      Bring(*Open(), other).ToString(),
      AllOf(HasSubstr("partition 0: items 0 to 2 are not those that the model was trained on"),
            HasSubstr("in a file")));
  trained_.erase(trained_.begin());
  Batch shifted(1, 12);
  EXPECT_THAT(Bring(*Open(1), shifted).ToString(),
              HasSubstr("items 3 to 4 are not those that the model was trained on"));
}

TEST_F(TrainedRowsTest, FewerRowsAreFoundOut) {
  for (const std::size_t rows : {std::size_t{2}, std::size_t{4}}) {
    const auto feeder = Open(rows);
    Batch batch(0, rows);
    EXPECT_THAT(
        Bring(*feeder, batch).ToString(),
        HasSubstr(fmt::format("it has {} items, and had 5 at least, of those that the model "
                              "was trained on",
                              rows)));
  }
}

TEST_F(TrainedRowsTest, APartOfAChunkIsNeverFedAsIfNothingWereKnown) {
  const auto feeder = Open();
  Batch batch(0, 12);
  ASSERT_TRUE(feeder->Write(batch.columns(), 0, 4).ok()) << "not as Ahead says";
  EXPECT_THAT(feeder->Write(batch.columns(), 4, 12).status().ToString(),
              HasSubstr("the model was trained on"));
}

TEST_F(PartitionFeederTest, PickledBatchesOfWhichSomeRowsWereTrainedOnComeAgain) {
  std::uint32_t checksum = 0;
  {
    const auto first = Open();
    ASSERT_TRUE(WriteBytes(*first, "ab").ok());
    ASSERT_TRUE(first->Finish().ok());
    const auto next = server_->Next("input", {.deadline = Deadline::After(60s)});
    checksum = std::get<ChunkLoan>(next.value()).checksum();
  }
  PartitionFeederTest::SetUp();  // Another cluster.
  trained_ = {{.chunk = {.items = {0, 2}, .checksum = checksum}, .whole = false}};
  const auto feeder = Open();
  EXPECT_TRUE(feeder->Ahead().delivered);
  ASSERT_TRUE(WriteBytes(*feeder, "ab").ok());
  ASSERT_TRUE(feeder->Finish().ok());
  const auto next = server_->Next("input", {.deadline = Deadline::After(60s)});
  EXPECT_EQ(std::get<ChunkLoan>(next.value()).items(), 2u);
  EXPECT_EQ(std::get<ChunkLoan>(next.value()).checksum(), checksum);
}

TEST_F(PartitionFeederTest, SaysHowManyPickledBatchesEachChunkMayHave) {
  {
    const auto first = Open(0);
    for (const std::string_view text : {"a", "bc", "def"}) {
      EXPECT_FALSE(first->BatchesAhead().delivered);
      EXPECT_EQ(first->BatchesAhead().items, text.size());
      ASSERT_TRUE(WriteBytes(*first, text).ok());
    }
    ASSERT_TRUE(first->Finish().ok());
  }
  const auto second = Open(1);
  EXPECT_TRUE(second->BatchesAhead().delivered);
  ASSERT_TRUE(WriteBytes(*second, "abc").ok());
  EXPECT_TRUE(second->BatchesAhead().delivered);
  EXPECT_EQ(second->BatchesAhead().items, 3u) << "as it was cut";
  ASSERT_TRUE(WriteBytes(*second, "def").ok());
  EXPECT_FALSE(second->BatchesAhead().delivered);
  EXPECT_EQ(second->BatchesAhead().items, 4u) << "as it would have been";
}

TEST_F(PartitionFeederTest, PickledBatchesThatChangedAreFoundOut) {
  {
    const auto first = Open(0);
    ASSERT_TRUE(WriteBytes(*first, "ab").ok());
    ASSERT_TRUE(first->Finish().ok());
  }
  EXPECT_TRUE(WriteBytes(*Open(1), "abc").ok());
  EXPECT_THAT(WriteBytes(*Open(2), "bac").ToString(), HasSubstr("items 0 to 1 are not those"));
}

TEST_F(PartitionFeederTest, CutsWhatIsTooLargeForAChunk) {
  const auto feeder = Open();
  Batch batch(0, 5000);  // 40,000 bytes, of which a quarter fits into a quarter of a region.
  EXPECT_EQ(feeder->chunk_limit_bytes(), kRegion / 4);
  const Result<std::uint64_t> written = feeder->Write(batch.columns(), 0, 5000);
  ASSERT_TRUE(written.ok()) << written.status().DebugString();
  ASSERT_TRUE(feeder->Finish().ok());
  const std::vector<std::int64_t> values = Take(4);
  std::vector<std::int64_t> expected(5000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_TRUE(values == expected);
}

TEST_F(PartitionFeederTest, PickledBatchesGoUnopenedAndOnceEach) {
  const std::vector<std::string> batches = {"first", "", std::string(kRegion / 4, 'x'), "last"};
  std::vector<std::uint64_t> sizes;
  for (const std::string& batch : batches) sizes.push_back(batch.size());
  std::vector<std::size_t> copied;
  const auto copy = [&](std::size_t i, std::byte* to) {
    copied.push_back(i);
    std::ranges::copy(std::as_bytes(std::span(batches[i])), to);
  };
  {
    const auto feeder = Open(0);
    ASSERT_TRUE(feeder->WritePickled(std::span(sizes).first(2), copy).ok());
    ASSERT_TRUE(feeder->Finish().ok());
    EXPECT_THAT(copied, ElementsAre(0, 1));
    copied.clear();
  }
  const auto feeder = Open(1);
  const Result<std::uint64_t> written = feeder->WritePickled(sizes, copy);
  ASSERT_TRUE(written.ok()) << written.status().DebugString();
  EXPECT_GT(*written, kRegion / 4);
  ASSERT_TRUE(feeder->Finish().ok());
  EXPECT_EQ(feeder->delivered_items(), 4u);
  // The first two are made again to be compared.
  EXPECT_THAT(copied, ElementsAre(0, 1, 2, 3));  // The large one has a chunk of its own.
  std::vector<std::string> read;
  while (read.size() < batches.size()) {
    const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(60s)});
    ASSERT_TRUE(next.ok() && std::holds_alternative<ChunkLoan>(*next));
    const Result<chunk::ChunkView> chunk =
        chunk::ChunkView::Parse(std::get<ChunkLoan>(*next).bytes());
    ASSERT_TRUE(chunk.ok()) << chunk.status().DebugString();
    EXPECT_EQ(chunk->kind(), chunk::ChunkKind::kPickledBatches);
    const chunk::ColumnView& column = chunk->columns()[0];
    for (std::uint64_t i = 0; i < column.values; ++i) {
      const auto value = column.Value(i);
      read.emplace_back(reinterpret_cast<const char*>(value.data()), value.size());
    }
  }
  EXPECT_EQ(read, batches);
}

TEST_F(PartitionFeederTest, ANullIsNamedByItsRowInThePartition) {
  const auto feeder = Open();
  Batch good(0, 3);
  Batch bad(3, 4, 2);
  ASSERT_TRUE(feeder->Write(good.columns(), 0, 3).ok());
  const Result<std::uint64_t> written = feeder->Write(bad.columns(), 0, 4);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.status().kind(), ErrorKind::kBadInput);
  EXPECT_THAT(written.status().ToString(), HasSubstr("partition 0: column x has a null in row 5"));
  const Result<std::uint64_t> outside = feeder->Write(good.columns(), 2, 4);
  ASSERT_FALSE(outside.ok());
  EXPECT_THAT(outside.status().ToString(), HasSubstr("rows [2, 4) of a record batch of 3"));
}

TEST_F(PartitionFeederTest, WhatANodeSaysOfItselfIsNoMistakeOfTheRows) {
  const auto feeder = Open();
  server_->Fail("the program raised ValueError");
  Status status;
  Batch batch(0, 100);
  while (status.ok()) status = feeder->Write(batch.columns(), 0, 100).status();
  EXPECT_EQ(status.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(status.ToString(), HasSubstr("the program raised ValueError"));
}

TEST_F(PartitionFeederTest, RowsThatNobodyWantsAreDiscarded) {
  const auto feeder = Open();
  server_->Terminate();
  Batch batch(0, 4000, 7);
  while (!feeder->stopped()) {
    Batch more(0, 10);
    ASSERT_TRUE(feeder->Write(more.columns(), 0, 10).ok());
  }
  const Result<std::uint64_t> written = feeder->Write(batch.columns(), 0, 4000);
  ASSERT_TRUE(written.ok()) << written.status().DebugString();
  EXPECT_EQ(*written, 0u);
  EXPECT_TRUE(feeder->Finish().ok());
}

}  // namespace
}  // namespace tfos::feed
