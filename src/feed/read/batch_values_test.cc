// What batches hold: strings, ragged values, types, and rows that came pickled.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chunk/row_structure.h"
#include "feed/feeder/pass_rows.h"
#include "feed/read/batch_reader_fixture.h"
#include "feed/read/test_chunks.h"
#include "testing/pickler.h"

namespace tfos::feed {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(BatchReaderTest, StringsAndRaggedValues) {
  const std::vector<TestColumn> columns = {
      {.kind = chunk::RowNodeKind::kText},
      {.kind = chunk::RowNodeKind::kNumberList, .dtype = kInt64, .ragged = true}};
  Put(MakeChunk(columns, 0, 3));
  Put(MakeChunk(columns, 3, 4));
  FinishAndEndFeed();
  const Batch first = NextBatch(2);
  EXPECT_THAT(first.columns[0].strings, ElementsAre("", "1"));
  EXPECT_THAT(Numbers<std::int64_t>(first.columns[1].boundaries), ElementsAre(0, 0, 1));
  const Batch second = NextBatch(4);  // Rows 2 to 5, of two chunks.
  EXPECT_THAT(second.columns[0].strings, ElementsAre("22", "333", "", "5"));
  EXPECT_THAT(Numbers<std::int64_t>(second.columns[1].data), ElementsAre(2, 2, 4, 5, 5));
  EXPECT_THAT(Numbers<std::int64_t>(second.columns[1].boundaries), ElementsAre(0, 2, 2, 3, 5));
  const Batch third = NextBatch(4);
  EXPECT_EQ(third.rows, 1u);
  EXPECT_THAT(third.columns[0].strings, ElementsAre("66"));
  EXPECT_THAT(third.columns[1].data.bytes, IsEmpty());
}

TEST_F(BatchReaderTest, ListsOfStrings) {
  const TestColumn pairs{.kind = chunk::RowNodeKind::kStringList, .shape = {2}};
  const TestColumn ragged{.kind = chunk::RowNodeKind::kStringList, .ragged = true};
  Put(MakeChunk({pairs, ragged}, 0, 3));
  Put(MakeChunk({pairs, ragged}, 3, 4));
  FinishAndEndFeed();
  const Batch first = NextBatch(2);
  EXPECT_THAT(columns_[0].shape, ElementsAre(2));
  EXPECT_EQ(columns_[1].encoding, columns::BatchEncoding::kRaggedStrings);
  EXPECT_THAT(first.columns[0].strings, ElementsAre("", "1", "1", "22"));
  EXPECT_THAT(first.columns[1].strings, ElementsAre("1"));
  EXPECT_THAT(Numbers<std::int64_t>(first.columns[1].boundaries), ElementsAre(0, 0, 1));
  const Batch second = NextBatch(4);  // Rows 2 to 5, of two chunks.
  EXPECT_THAT(second.columns[0].strings, ElementsAre("22", "333", "333", "", "", "5", "5", "66"));
  EXPECT_THAT(second.columns[1].strings, ElementsAre("22", "333", "", "5", "66"));
  EXPECT_THAT(Numbers<std::int64_t>(second.columns[1].boundaries), ElementsAre(0, 2, 2, 3, 5));
  const Batch third = NextBatch(4);
  EXPECT_THAT(third.columns[0].strings, ElementsAre("66", "777"));
  EXPECT_THAT(third.columns[1].strings, IsEmpty());
  EXPECT_THAT(Numbers<std::int64_t>(third.columns[1].boundaries), ElementsAre(0, 0));
}

TEST_F(BatchReaderTest, ListsOfStringsThatWaitForTheirBatchAreCopied) {
  const std::vector<TestColumn> columns = {
      {.kind = chunk::RowNodeKind::kStringList, .shape = {2}},
      {.kind = chunk::RowNodeKind::kStringList, .ragged = true},
      {.kind = chunk::RowNodeKind::kText}};
  Put(MakeChunk(columns, 4, 3));
  EXPECT_EQ(NextBatch(1).rows, 1u);
  const Result<BatchResult> short_wait =
      reader_->Next({.rows = 3, .columns = columns_}, {.deadline = Deadline::After({})});
  EXPECT_EQ(short_wait.status().kind(), ErrorKind::kRetryLater);
  Put(MakeChunk(columns, 7, 2));
  const Batch batch = NextBatch(3);  // Rows 5 and 6 as copies, and 7.
  EXPECT_THAT(batch.columns[0].strings, ElementsAre("5", "66", "66", "777", "777", ""));
  EXPECT_THAT(batch.columns[1].strings, ElementsAre("5", "66", "777"));
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[1].boundaries), ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(batch.columns[2].strings, ElementsAre("5", "66", "777"));
}

TEST_F(BatchReaderTest, ListsOfStringsOfOneLengthPassAsRaggedWhenDeclared) {
  const TestColumn two{.kind = chunk::RowNodeKind::kStringList, .shape = {2}};
  const TestColumn ragged{.kind = chunk::RowNodeKind::kStringList, .ragged = true};
  Put(MakeChunk({two}, 0, 2));
  Put(MakeChunk({ragged}, 2, 1));
  EXPECT_THAT(ErrorOf({{.name = "0", .encoding = columns::BatchEncoding::kStrings}}),
              AllOf(HasSubstr("column '0' comes as strings[2] and was strings in"),
                    Not(HasSubstr("ragged="))));
  EXPECT_THAT(ErrorOf({{.name = "0", .encoding = columns::BatchEncoding::kStrings, .shape = {3}}}),
              HasSubstr("was strings[3] in the first chunk or in spec=: if its length varies, say "
                        "ragged=['0']"));
  EXPECT_THAT(
      ErrorOf({{.name = "0", .encoding = columns::BatchEncoding::kRagged, .dtype = kInt64}}),
      HasSubstr("was ragged int64"));
  columns_ = {{.name = "0", .encoding = columns::BatchEncoding::kRaggedStrings}};
  const Batch batch = NextBatch(3);
  EXPECT_THAT(batch.columns[0].strings, ElementsAre("", "1", "1", "22", "22", "333"));
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[0].boundaries), ElementsAre(0, 2, 4, 6));
}

TEST_F(BatchReaderTest, DenseValuesPassAsRaggedWhenDeclared) {
  const TestColumn two{.kind = chunk::RowNodeKind::kNumberList, .dtype = kInt64, .shape = {2}};
  const TestColumn ragged{.kind = chunk::RowNodeKind::kNumberList, .dtype = kInt64, .ragged = true};
  Put(MakeChunk({two, two}, 0, 2));
  Put(MakeChunk({ragged, two}, 2, 1));
  FinishAndEndFeed();
  columns_ = {{.name = "0", .encoding = columns::BatchEncoding::kRagged, .dtype = kInt64}};
  const Batch batch = NextBatch(3);
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[0].data), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[0].boundaries), ElementsAre(0, 2, 4, 6));
}

TEST_F(BatchReaderTest, ListsThatAreEmptyInAllRowsPassForListsOfAnything) {
  const TestColumn empty{.kind = chunk::RowNodeKind::kList};
  const TestColumn number{.kind = chunk::RowNodeKind::kInt, .dtype = kInt64};
  const TestColumn ragged{.kind = chunk::RowNodeKind::kNumberList, .dtype = kInt64, .ragged = true};
  const TestColumn texts{.kind = chunk::RowNodeKind::kStringList, .ragged = true};
  Put(MakeChunk({empty, empty, number}, 0, 1));
  Put(MakeChunk({ragged, texts, number}, 1, 2));
  Put(MakeChunk({empty, empty, number}, 3, 2));
  FinishAndEndFeed();
  const Wait wait{.deadline = Deadline::After(kLong)};
  const auto peeked = reader_->Peek({}, wait);
  ASSERT_TRUE(peeked.ok() && *peeked) << peeked.status().DebugString();
  EXPECT_FALSE((**peeked)[0].known());
  EXPECT_TRUE((**peeked)[2].known());
  const auto types = reader_->Peek(std::vector<std::string>{"1"}, wait);
  ASSERT_TRUE(types.ok() && *types) << types.status().DebugString();
  columns_ = **types;
  EXPECT_EQ(columns_[0].encoding, columns::BatchEncoding::kRagged);
  EXPECT_EQ(columns_[1].encoding, columns::BatchEncoding::kRaggedStrings);
  const Batch first = NextBatch(1);
  EXPECT_THAT(Numbers<std::int64_t>(first.columns[0].boundaries), ElementsAre(0, 0));
  EXPECT_THAT(first.columns[1].strings, IsEmpty());
  const Batch rest = NextBatch(4);  // Rows 1 to 4, of two chunks.
  EXPECT_THAT(Numbers<std::int64_t>(rest.columns[0].boundaries), ElementsAre(0, 1, 3, 3, 3));
  EXPECT_THAT(rest.columns[1].strings, ElementsAre("1", "22", "333"));
  EXPECT_THAT(Numbers<std::int64_t>(rest.columns[2].data), ElementsAre(1, 2, 3, 4));
}

TEST_F(BatchReaderTest, EmptyListsDoNotPassForLongerOnes) {
  Put(MakeChunk({{.kind = chunk::RowNodeKind::kTuple}}, 0, 1));
  EXPECT_THAT(ErrorOf({{.name = "0", .dtype = kInt64, .shape = {3}}}),
              HasSubstr("column '0' comes as empty lists and was int64[3] in the first chunk or in "
                        "spec=: if its length varies, say ragged=['0']"));
  EXPECT_THAT(ErrorOf({{.name = "0", .dtype = kInt64}}), HasSubstr("give all rows one type"));
  columns_ = {{.name = "0", .dtype = kInt64, .shape = {0}}};
  EXPECT_THAT(NextBatch(1).columns[0].data.bytes, IsEmpty());
}

TEST_F(BatchReaderTest, WhatEmptyListsHoldIsNotLookedForWithoutEnd) {
  const std::vector<TestColumn> columns = {{.kind = chunk::RowNodeKind::kList},
                                           {.kind = chunk::RowNodeKind::kInt, .dtype = kInt64}};
  for (std::uint64_t row = 0; row < 20; ++row) Put(MakeChunk(columns, row, 1));
  const auto types =
      reader_->Peek(std::vector<std::string>{"0"}, {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(types.ok() && *types) << types.status().DebugString();
  EXPECT_FALSE((**types)[0].known());
  columns_ = {{.name = "1", .dtype = kInt64}};
  EXPECT_EQ(NextBatch(20).rows, 20u);
}

TEST_F(BatchReaderTest, OtherTypesThanWantedAreNamed) {
  Put(MakeChunk(Wide(), 0, 4));
  EXPECT_THAT(ErrorOf({{.name = "1", .dtype = kFloat32}}),
              HasSubstr("column '1' comes as int64[] and was float32[]"));
  EXPECT_THAT(ErrorOf({{.name = "0", .dtype = kFloat32, .shape = {4, 4}}}),
              HasSubstr("comes as float32[16] and was float32[4, 4]"));
  EXPECT_THAT(ErrorOf({{.name = "0", .dtype = kFloat32, .shape = {15}}}),
              HasSubstr("ragged=['0']"));
  EXPECT_THAT(ErrorOf({{.name = "0", .encoding = columns::BatchEncoding::kStrings}}),
              HasSubstr("and was strings"));
  EXPECT_THAT(ErrorOf({{.name = "2", .dtype = kFloat32}}),
              HasSubstr("no column '2'; they have 0, 1"));
}

TEST_F(BatchReaderTest, ATypeThatChangesBetweenChunksIsAnError) {
  std::vector<TestColumn> columns = Wide();
  Put(MakeChunk(columns, 0, 3));
  columns[0].shape = {4, 4};
  Put(MakeChunk(columns, 3, 3));
  FinishAndEndFeed();
  EXPECT_EQ(NextBatch(2).rows, 2u);
  for (int i = 0; i < 2; ++i) {
    const Result<BatchResult> next = Next(2);
    ASSERT_FALSE(next.ok());
    EXPECT_EQ(next.status().kind(), ErrorKind::kBadInput);
    EXPECT_THAT(next.status().ToString(), HasSubstr("comes as float32[4, 4] and was float32[16]"));
  }
}

TEST_F(BatchReaderTest, NestedRowsAreNamed) {
  std::string structure;
  chunk::AppendRowStructure(
      Node(chunk::RowNodeKind::kDict,
           {Node(chunk::RowNodeKind::kTuple, {Node(chunk::RowNodeKind::kInt)})}, {"pair"}),
      structure);
  chunk::ChunkBuilder builder(chunk::ChunkKind::kColumnar, 1, structure);
  builder.AddColumn({.dtype = kInt64, .shape = {}, .values = 1, .name = {}});
  std::vector<std::byte> bytes(builder.Plan().value());
  ASSERT_TRUE(builder.Begin(bytes).ok());
  Put(bytes);
  for (int i = 0; i < 2; ++i) {
    const auto peeked = reader_->Peek({}, {.deadline = Deadline::After(kLong)});
    ASSERT_FALSE(peeked.ok());
    EXPECT_THAT(peeked.status().ToString(),
                HasSubstr("column 'pair' of the rows is a tuple of different things"));
  }
}

TEST_F(BatchReaderTest, PickledRowsThatAreColumnsAreNotConverted) {
  Put(PickledChunk(Pickler().Ints({1, 2, 3}).Stop()));
  Put(PickledChunk(Pickler().Ints({4, 5}).Stop()));
  FinishAndEndFeed();
  reader_ = std::make_unique<BatchReader>(*server_, "input",
                                          [](std::span<const std::byte>) -> Result<AlignedBuffer> {
                                            return Status(ErrorKind::kBug, "left to Python");
                                          });
  EXPECT_THAT(Numbers<std::int64_t>(NextBatch(4).columns[0].data), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Numbers<std::int64_t>(NextBatch(4).columns[0].data), ElementsAre(5));
}

TEST_F(BatchReaderTest, OtherPickledChunksAreConverted) {
  const std::vector<std::byte> pickled = PickledChunk("abc");
  Put(pickled);
  Put(pickled);
  int converted = 0;
  reader_ = std::make_unique<BatchReader>(
      *server_, "input", [&](std::span<const std::byte> chunk) -> Result<AlignedBuffer> {
        EXPECT_EQ(chunk.size(), pickled.size());
        if (++converted == 2) return Status(ErrorKind::kBadInput, "they have nothing in common");
        return InBuffer(MakeChunk(Wide(), 40, 2));
      });
  const Batch batch = NextBatch(2);
  EXPECT_THAT(Numbers<std::int64_t>(batch.columns[1].data), ElementsAre(40, 41));
  const Result<BatchResult> next = Next(2);
  ASSERT_FALSE(next.ok());
  EXPECT_THAT(next.status().ToString(), HasSubstr("nothing in common"));
}

/// Converts to two rows, and fails the first time.
BatchReader::Converter FailsOnce(std::function<Status()> failure) {
  return [failure = std::move(failure),
          calls = 0](std::span<const std::byte>) mutable -> Result<AlignedBuffer> {
    if (calls++ == 0) return failure();
    return InBuffer(MakeChunk(Wide(), 40, 2));
  };
}

TEST_F(BatchReaderTest, AChunkThatNoMemoryWasLeftForIsNotLost) {
  Put(PickledChunk("abc"));
  FinishAndEndFeed();
  reader_ = std::make_unique<BatchReader>(
      *server_, "input", FailsOnce([] { return Status(ErrorKind::kNoResources, "no memory"); }));
  EXPECT_EQ(Next(2).status().kind(), ErrorKind::kNoResources);
  EXPECT_THAT(Outline(2), ElementsAre("2", "epoch 0", "over"));
}

TEST_F(BatchReaderTest, AChunkThatAnExceptionCameBetweenIsNotLost) {
  Put(PickledChunk("abc"));
  FinishAndEndFeed();
  reader_ = std::make_unique<BatchReader>(*server_, "input",
                                          FailsOnce([]() -> Status { throw std::bad_alloc(); }));
  EXPECT_THROW(static_cast<void>(Next(2)), std::bad_alloc);
  EXPECT_THAT(Outline(2), ElementsAre("2", "epoch 0", "over"));
}

TEST_F(BatchReaderTest, RowsOfAnotherNodeThatNoMemoryWasLeftForAreNotLost) {
  reader_ = std::make_unique<BatchReader>(
      *server_, "input", FailsOnce([] { return Status(ErrorKind::kNoResources, "no memory"); }));
  const BatchOptions options = {.rows = 2, .columns = {{.name = "1", .dtype = kInt64}}};
  const Wait wait{.deadline = Deadline::After(kLong)};
  ASSERT_TRUE(
      PassRows(server_->endpoint(), key_, "input", 0, PickledChunk("abc"), {0, 2}, {.from = 7})
          .ok());
  EXPECT_EQ(reader_->TakePassed(options, 0, wait).status().kind(), ErrorKind::kNoResources);
  const auto taken = reader_->TakePassed(options, 0, wait);
  ASSERT_TRUE(taken.ok()) << taken.status().DebugString();
  EXPECT_EQ(taken->rows, 2u);
  EXPECT_EQ(taken->from, 7u);
}

}  // namespace
}  // namespace tfos::feed
