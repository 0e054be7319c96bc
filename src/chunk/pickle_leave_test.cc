#include "chunk/pickle_leave.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tfos::chunk {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> Chunk(ChunkKind kind) {
  ChunkBuilder builder(kind, kind == ChunkKind::kPickledBatches ? kUnknownRows : 1,
                       kind == ChunkKind::kColumnar ? std::string(1, '\0') : std::string());
  if (kind != ChunkKind::kColumnar) {
    builder.AddColumn({.encoding = ColumnEncoding::kOpaque,
                       .shape = {},
                       .values = 1,
                       .data_bytes = 8,
                       .name = {}});
  }
  std::vector<std::byte> bytes(builder.Plan().value());
  EXPECT_TRUE(builder.Begin(bytes).ok());
  if (kind != ChunkKind::kColumnar) builder.SetStringBoundary(0, 1, 8);
  return bytes;
}

TEST(PickleLeaveTest, ColumnsNeedNone) {
  const std::vector<std::byte> columns = Chunk(ChunkKind::kColumnar);
  const auto view = ChunkView::Parse(columns);
  ASSERT_TRUE(view.ok()) << view.status().DebugString();
  for (const bool pickles : {true, false}) {
    EXPECT_TRUE(CheckLeave(*view, pickles).ok());
    EXPECT_TRUE(CheckLeave(columns, pickles).ok());
  }
}

TEST(PickleLeaveTest, BothKindsOfPicklesNeedIt) {
  for (const ChunkKind kind : {ChunkKind::kPickledRows, ChunkKind::kPickledBatches}) {
    const std::vector<std::byte> pickle = Chunk(kind);
    const auto view = ChunkView::Parse(pickle);
    ASSERT_TRUE(view.ok()) << view.status().DebugString();
    EXPECT_TRUE(CheckLeave(*view, true).ok());
    EXPECT_TRUE(CheckLeave(pickle, true).ok());
    for (const Status& refused : {CheckLeave(*view, false), CheckLeave(pickle, false)}) {
      EXPECT_EQ(refused.kind(), ErrorKind::kBadInput);
      EXPECT_THAT(refused.ToString(), HasSubstr("spark.tfos.feed.pickle=false"));
    }
  }
}

// Its feeder can still write to the memory.
TEST(PickleLeaveTest, WhatWasParsedCounts) {
  std::vector<std::byte> memory = Chunk(ChunkKind::kPickledRows);
  const auto view = ChunkView::Parse(memory);
  ASSERT_TRUE(view.ok()) << view.status().DebugString();
  memory = Chunk(ChunkKind::kColumnar);
  EXPECT_FALSE(CheckLeave(*view, false).ok());
}

TEST(PickleLeaveTest, WhatIsNoChunkIsNotColumnar) {
  EXPECT_FALSE(CheckLeave(std::span<const std::byte>(), false).ok());
}

}  // namespace
}  // namespace tfos::chunk
