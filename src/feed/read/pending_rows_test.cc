#include "feed/read/pending_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/memory/aligned_buffer.h"
#include "feed/queue/cached_epoch.h"
#include "feed/read/test_chunks.h"

// What needs a real feeder is in batch_memory_test.cc.

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;

class PendingRowsTest : public ::testing::Test {
 protected:
  /// A chunk of the rows [first, first + count): an int64 with the number of the row.
  std::shared_ptr<const RowChunk> Chunk(std::uint64_t first, std::uint64_t count) {
    const std::vector<std::byte> bytes = MakeChunk(
        {{.kind = chunk::RowNodeKind::kInt, .dtype = chunk::DType::kInt64}}, first, count);
    auto memory = std::make_shared<AlignedBuffer>(bytes.size());
    std::memcpy(memory->bytes().data(), bytes.data(), bytes.size());
    ChunkLoan loan(CachedEpoch::Chunk{.memory = std::move(memory), .items = count});
    auto opened = opener_.Open(loan);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return opened->chunk;
  }

  std::vector<std::int64_t> Take(std::uint64_t rows) {
    const Result<Batch> batch = pending_.Take(
        {.rows = rows, .columns = {{.name = "0", .dtype = chunk::DType::kInt64}}}, opener_.pool());
    EXPECT_TRUE(batch.ok()) << batch.status().ToString();
    std::vector<std::int64_t> numbers = Numbers<std::int64_t>(batch->columns.at(0).data);
    EXPECT_EQ(numbers.size(), batch->rows);
    return numbers;
  }

  ChunkOpener opener_{{}, /*pickles=*/false};
  PendingRows pending_;
};

TEST_F(PendingRowsTest, BatchesAreCutInTheOrderInWhichRowsCame) {
  pending_.Add(Chunk(0, 4), 1, 3);
  pending_.Add(Chunk(10, 2), 0, 2);
  EXPECT_EQ(pending_.rows(), 5U);
  EXPECT_THAT(Take(2), ElementsAre(1, 2));
  EXPECT_THAT(Take(2), ElementsAre(3, 10)) << "of two chunks";
  EXPECT_EQ(pending_.rows(), 1U);
  EXPECT_THAT(Take(2), ElementsAre(11)) << "what there is";
  EXPECT_EQ(pending_.rows(), 0U);
}

TEST_F(PendingRowsTest, WhatCannotBeABatchStays) {
  pending_.Add(Chunk(0, 3), 0, 3);
  const Result<Batch> batch =
      pending_.Take({.rows = 2, .columns = {{.name = "none"}}}, opener_.pool());
  EXPECT_EQ(batch.status().kind(), ErrorKind::kBadInput);
  EXPECT_THAT(Take(3), ElementsAre(0, 1, 2));
}

TEST_F(PendingRowsTest, DroppedRowsAreCounted) {
  pending_.Add(Chunk(0, 3), 1, 2);
  EXPECT_EQ(pending_.Drop(), 2U);
  EXPECT_EQ(pending_.rows(), 0U);
  EXPECT_EQ(pending_.Drop(), 0U);
}

TEST_F(PendingRowsTest, TheLastRowsArePassedOnWithTheirChunks) {
  pending_.Add(Chunk(0, 2), 0, 2);  // It keeps no source.
  opener_.KeepSources();
  pending_.Add(Chunk(10, 4), 0, 3);
  pending_.Add(Chunk(20, 2), 0, 2);
  EXPECT_EQ(pending_.passable_rows(), 5U);
  std::vector<ItemRange> passed;
  const auto pass = [&](std::span<const std::byte> chunk, const ItemRange& rows) {
    EXPECT_FALSE(chunk.empty());
    passed.push_back(rows);
    return Status::Ok();
  };
  EXPECT_EQ(pending_.PassOn(3, pass).value(), 0U);
  EXPECT_THAT(passed, ElementsAre(ItemRange{0, 2}, ItemRange{2, 3}));
  passed.clear();
  EXPECT_EQ(pending_.PassOn(3, pass).value(), 1U) << "rows without a source stay";
  EXPECT_THAT(passed, ElementsAre(ItemRange{0, 2}));
  EXPECT_THAT(Take(9), ElementsAre(0, 1));
}

TEST_F(PendingRowsTest, RowsThatNobodyTakesStay) {
  opener_.KeepSources();
  pending_.Add(Chunk(0, 3), 0, 3);
  const auto refuse = [](std::span<const std::byte>, const ItemRange&) {
    return Status(ErrorKind::kReconnect, "gone");
  };
  EXPECT_EQ(pending_.PassOn(2, refuse).status().kind(), ErrorKind::kReconnect);
  EXPECT_THAT(Take(3), ElementsAre(0, 1, 2));
}

TEST_F(PendingRowsTest, CopiedRowsAreNotInTheFeedersMemory) {
  auto of_feeder = std::make_shared<RowChunk>(*Chunk(0, 4));
  of_feeder->of_feeder = true;
  const std::weak_ptr<const RowChunk> watched = of_feeder;
  pending_.Add(std::move(of_feeder), 1, 3);
  EXPECT_FALSE(watched.expired());
  EXPECT_TRUE(pending_.CopyFromFeeders(opener_, /*keep_passable=*/false).ok());
  EXPECT_TRUE(watched.expired());
  EXPECT_THAT(Take(3), ElementsAre(1, 2, 3));
}

TEST_F(PendingRowsTest, CopiedRowsCanBePassedOnWhereThatIsPromised) {
  opener_.KeepSources();
  const auto nobody = [](std::span<const std::byte>, const ItemRange&) { return Status::Ok(); };
  pending_.Add(Chunk(0, 2), 0, 2);
  ASSERT_TRUE(pending_.CopyFromFeeders(opener_, /*keep_passable=*/true).ok());
  EXPECT_EQ(pending_.passable_rows(), 2U);
  ASSERT_TRUE(pending_.CopyFromFeeders(opener_, /*keep_passable=*/false).ok());
  EXPECT_EQ(pending_.passable_rows(), 0U);
  EXPECT_EQ(pending_.PassOn(1, nobody).value(), 1U);
}

TEST_F(PendingRowsTest, FeedersOfReadRowsAreKnown) {
  const auto chunk = Chunk(0, 2);
  pending_.Add(chunk, 0, 1);
  EXPECT_FALSE(pending_.until_read());
  pending_.Add(chunk, 1, 1, std::make_shared<LentMemory>());
  EXPECT_TRUE(pending_.until_read());
}

}  // namespace
}  // namespace tfos::feed
