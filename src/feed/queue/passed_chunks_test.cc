#include "feed/queue/passed_chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

QueuedChunk Chunk(std::uint64_t number) {
  QueuedChunk chunk;
  chunk.number = number;
  return chunk;
}

std::vector<std::uint64_t> TakeAll(PassedChunks& passed, std::uint32_t epoch) {
  std::vector<std::uint64_t> numbers;
  while (const auto chunk = passed.Take(epoch)) numbers.push_back(chunk->number);
  return numbers;
}

TEST(PassedChunksTest, AnEpochGetsItsOwnInOrder) {
  PassedChunks passed;
  EXPECT_TRUE(passed.Add({.epoch = 1, .giver = 7, .number = 1}, Chunk(10)));
  EXPECT_TRUE(passed.Add({.epoch = 2, .giver = 7, .number = 2}, Chunk(20)));
  EXPECT_TRUE(passed.Add({.epoch = 1, .giver = 8, .number = 1}, Chunk(11)));
  EXPECT_THAT(TakeAll(passed, 0), IsEmpty());
  EXPECT_THAT(TakeAll(passed, 1), ElementsAre(10, 11));
  EXPECT_THAT(TakeAll(passed, 1), IsEmpty());
  EXPECT_THAT(TakeAll(passed, 2), ElementsAre(20));
}

TEST(PassedChunksTest, WhatAGiverBringsAgainIsAcceptedOnce) {
  PassedChunks passed;
  EXPECT_TRUE(passed.Add({.epoch = 1, .giver = 7, .number = 3}, Chunk(10)));
  EXPECT_FALSE(passed.Add({.epoch = 1, .giver = 7, .number = 3}, Chunk(11)));
  EXPECT_THAT(TakeAll(passed, 1), ElementsAre(10));
  // Neither once its rows have been taken.
  EXPECT_FALSE(passed.Add({.epoch = 1, .giver = 7, .number = 3}, Chunk(12)));
  EXPECT_THAT(TakeAll(passed, 1), IsEmpty());
}

TEST(PassedChunksTest, RowsWithoutANumberAreNeverThoughtTheSame) {
  PassedChunks passed;
  EXPECT_TRUE(passed.Add({.epoch = 1, .giver = 7}, Chunk(10)));
  EXPECT_TRUE(passed.Add({.epoch = 1, .giver = 7}, Chunk(11)));
  EXPECT_THAT(TakeAll(passed, 1), ElementsAre(10, 11));
}

TEST(PassedChunksTest, OnlyTheLatestEpochsNumbersAreKept) {
  PassedChunks passed;
  EXPECT_TRUE(passed.Add({.epoch = 1, .giver = 7, .number = 1}, Chunk(10)));
  EXPECT_TRUE(passed.Add({.epoch = 2, .giver = 7, .number = 1}, Chunk(20)));
  EXPECT_FALSE(passed.Add({.epoch = 2, .giver = 7, .number = 1}, Chunk(21)));
  EXPECT_TRUE(passed.Add({.epoch = 1, .giver = 7, .number = 1}, Chunk(11)));
  EXPECT_THAT(TakeAll(passed, 1), ElementsAre(10, 11));
}

TEST(PassedChunksTest, WhatIsDroppedIsReturnedAndWasNotAccepted) {
  PassedChunks passed;
  EXPECT_TRUE(passed.Add({.epoch = 1, .giver = 8, .number = 9}, Chunk(30)));
  EXPECT_THAT(TakeAll(passed, 1), ElementsAre(30));
  EXPECT_TRUE(passed.Add({.epoch = 1, .giver = 7, .number = 1}, Chunk(10)));
  EXPECT_TRUE(passed.Add({.epoch = 1, .giver = 7, .number = 2}, Chunk(20)));
  std::vector<std::uint64_t> dropped;
  for (const QueuedChunk& chunk : passed.Clear()) dropped.push_back(chunk.number);
  EXPECT_THAT(dropped, ElementsAre(10, 20));
  EXPECT_THAT(TakeAll(passed, 1), IsEmpty());
  EXPECT_FALSE(passed.Has({.epoch = 1, .giver = 7, .number = 2}));
  EXPECT_TRUE(passed.Has({.epoch = 1, .giver = 8, .number = 9})) << "it was taken before";
}

}  // namespace
}  // namespace tfos::feed
