#include "feed/read/position/merged_position.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Origin = std::shared_ptr<const ChunkOrigin>;
using Numbers = std::vector<std::uint64_t>;

/// Items 10 n to 10 n + 9 of the partition, with as many rows.
AcceptedChunk Items(std::uint64_t n) {
  return {.items = {10 * n, 10 * n + 10}, .checksum = 0xffff'fff0 + static_cast<std::uint32_t>(n)};
}

Origin Chunk(std::uint32_t partition, std::uint64_t n, JobId job = {1}) {
  return std::make_shared<ChunkOrigin>(
      ChunkOrigin{.partition = partition, .job = job, .chunk = Items(n), .rows = 10});
}

Origin Passed(std::uint32_t giver, std::uint64_t number) {
  return std::make_shared<ChunkOrigin>(
      ChunkOrigin{.passed = true, .number = number, .partition = giver, .rows = 10});
}

TrainedRows Line(std::uint32_t partition, std::uint64_t n, ItemRange rows) {
  return {.partition = partition, .chunk = Items(n), .rows = 10, .trained = rows};
}

Result<std::vector<TrainedRows>> Merge(const std::vector<Numbers>& nodes,
                                       const std::vector<TrainedRows>& before = {}) {
  return Merged({nodes.begin(), nodes.end()}, before);
}

TEST(MergedPositionTest, HasTheRowsOfAllNodesInTheOrderOfTheData) {
  const Numbers first = Encode(0, {.trained = {{Chunk(1, 0), {0, 10}}, {Chunk(0, 1), {0, 4}}}});
  const Numbers second = Encode(1, {.trained = {{Chunk(0, 0), {0, 10}}}});
  const Numbers without_rows = Encode(2, {});
  const auto merged = Merge({first, second, without_rows});
  ASSERT_TRUE(merged.ok()) << merged.status().DebugString();
  EXPECT_THAT(*merged, ElementsAre(Line(0, 0, {0, 10}), Line(0, 1, {0, 4}), Line(1, 0, {0, 10})));
  EXPECT_THAT(Merge({without_rows}).value(), IsEmpty());
}

TEST(MergedPositionTest, RowsThatWerePassedOnAreThoseOfTheGiver) {
  const Numbers giver =
      Encode(7, {.trained = {{Chunk(0, 0), {0, 3}}},
                 .passed = {{4, {Chunk(0, 0), {6, 10}}}, {5, {Chunk(0, 0), {5, 6}}}}});
  const Numbers taker = Encode(
      2, {.trained = {{Chunk(0, 1), {0, 10}}, {Passed(7, 4), {6, 8}}, {Passed(7, 5), {5, 6}}}});
  const auto merged = Merge({giver, taker});
  ASSERT_TRUE(merged.ok()) << merged.status().DebugString();
  EXPECT_THAT(*merged, ElementsAre(Line(0, 0, {0, 3}), Line(0, 0, {5, 8}), Line(0, 1, {0, 10})));
  EXPECT_THAT(Merge({taker}).status().ToString(), HasSubstr("by a node that has not said so"));
}

TEST(MergedPositionTest, GoesOnFromTheOneBefore) {
  const std::vector<TrainedRows> before = {Line(0, 0, {0, 10}), Line(0, 1, {0, 3}),
                                           Line(0, 1, {7, 8})};
  const auto merged =
      Merge({Encode(0, {.trained = {{Chunk(0, 1), {3, 5}}, {Chunk(0, 2), {0, 1}}}})}, before);
  ASSERT_TRUE(merged.ok()) << merged.status().DebugString();
  EXPECT_THAT(*merged, ElementsAre(Line(0, 0, {0, 10}), Line(0, 1, {0, 5}), Line(0, 1, {7, 8}),
                                   Line(0, 2, {0, 1})));
}

TEST(MergedPositionTest, IsNotKnownWhereRowsMayBeInTwoChunks) {
  auto other = std::make_shared<ChunkOrigin>(*Chunk(0, 0));
  other->chunk.items = {5, 15};
  const Numbers first = Encode(0, {.trained = {{Chunk(0, 0), {0, 1}}}});
  EXPECT_THAT(Merge({first, Encode(1, {.trained = {{other, {0, 1}}}})}).status().ToString(),
              HasSubstr("items 5 to 14 of partition 0 came twice"));
  other->chunk.items = {0, 10};
  other->chunk.checksum = 1;
  EXPECT_EQ(Merge({first, Encode(1, {.trained = {{other, {0, 1}}}})}).status().kind(),
            ErrorKind::kUnsupported);
  // The same chunk may have been on two nodes, one of which was lost.
  EXPECT_TRUE(Merge({first, Encode(1, {.trained = {{Chunk(0, 0), {0, 1}}}})}).ok());
}

TEST(MergedPositionTest, IsNotKnownOfTwoJobs) {
  EXPECT_THAT(Merge({Encode(0, {.trained = {{Chunk(0, 0), {0, 1}}}}),
                     Encode(1, {.trained = {{Chunk(0, 1, {2}), {0, 1}}}})})
                  .status()
                  .ToString(),
              HasSubstr("more than one Spark job"));
}

TEST(MergedPositionTest, OtherNumbersAreRefused) {
  Numbers numbers = Encode(0, {.trained = {{Chunk(0, 0), {0, 1}}}});
  numbers[3] = 9;
  EXPECT_EQ(Merge({numbers}).status().kind(), ErrorKind::kBadInput);
  numbers.pop_back();
  EXPECT_EQ(Merge({numbers}).status().kind(), ErrorKind::kBadInput);
  EXPECT_EQ(Merge({Numbers{}}).status().kind(), ErrorKind::kBadInput);
}

}  // namespace
}  // namespace tfos::feed
