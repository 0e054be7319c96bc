#include "chunk/chunk_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tfos::chunk {
namespace {

TEST(ChunkRowsTest, GrowsByAQuarterToTheSizeAskedForAndNotBeyond) {
  constexpr std::uint64_t kRowBytes = 8;
  constexpr std::uint64_t kChunkBytes = 1000 * kRowBytes;
  std::uint64_t rows = kFirstChunkRows;
  for (int chunk = 0; chunk < 100; ++chunk) {
    const std::uint64_t next = NextChunkRows(rows, rows, rows * kRowBytes, kChunkBytes);
    EXPECT_LE(next * kRowBytes, kChunkBytes);
    EXPECT_LE(next, rows + std::max(kFirstChunkRows, rows / 4));
    rows = next;
  }
  EXPECT_EQ(rows, 1000u);
}

TEST(ChunkRowsTest, ShrinksAtOnce) {
  EXPECT_EQ(NextChunkRows(500, 500, 5'000'000, 1'000'000), 100u);
  EXPECT_EQ(NextChunkRows(1, 1, 5'000'000, 1'000'000), 1u) << "a row larger than a chunk";
}

TEST(ChunkRowsTest, SkippedRowsSayNothing) { EXPECT_EQ(NextChunkRows(16, 16, 0, 1000), 16u); }

TEST(ChunkRowsTest, TinyRowsStayBelowTheMost) {
  EXPECT_EQ(NextChunkRows(1 << 16, 1 << 16, 1 << 16, std::numeric_limits<std::uint64_t>::max()),
            kMostRowsInChunk);
}

TEST(ChunkRowsTest, PickledBatchesGrowByAQuarterToTheMost) {
  std::uint64_t batches = kFirstChunkBatches;
  while (batches < kMostBatchesInChunk) {
    const std::uint64_t next = NextChunkBatches(batches);
    EXPECT_GT(next, batches);
    EXPECT_LE(next, batches + std::max<std::uint64_t>(1, batches / 4));
    batches = next;
  }
  EXPECT_EQ(batches, kMostBatchesInChunk);
  EXPECT_EQ(NextChunkBatches(batches), kMostBatchesInChunk);
}

TEST(ChunkRowsTest, AChunkThatWasFullBeforeItHadAllItsBatchesKeepsTheNextOneSmall) {
  EXPECT_EQ(NextChunkBatches(1), 2u);
}

}  // namespace
}  // namespace tfos::chunk
