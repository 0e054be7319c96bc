#include "feed/read/position/epoch_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Origin = std::shared_ptr<const ChunkOrigin>;

Origin Chunk(std::uint32_t partition, JobId job = {1}) {
  return std::make_shared<ChunkOrigin>(
      ChunkOrigin{.partition = partition, .job = job, .chunk = {.items = {0, 9}}, .rows = 9});
}

Origin Passed(std::uint32_t giver, std::uint64_t number) {
  return std::make_shared<ChunkOrigin>(
      ChunkOrigin{.passed = true, .number = number, .partition = giver, .rows = 9});
}

class EpochLogTest : public ::testing::Test {
 protected:
  void SetUp() override { log_.Begin(); }

  /// The rows of each chunk.
  std::vector<ItemRange> RowsOf(std::uint32_t epoch, std::uint64_t batches) {
    std::vector<ItemRange> rows;
    const auto position = log_.Of(epoch, batches);
    EXPECT_TRUE(position.has_value());
    if (!position) return rows;
    for (const EpochLog::Part& part : position->trained) rows.push_back(part.rows);
    return rows;
  }

  EpochLog log_;
  const Origin a_ = Chunk(0);
  const Origin b_ = Chunk(1);
};

TEST_F(EpochLogTest, SaysWhatTheFirstBatchesWereMadeOf) {
  log_.OnBatch(0, {{a_, {0, 4}}});
  log_.OnBatch(0, {{a_, {4, 9}}, {b_, {0, 1}}});
  log_.OnBatch(0, {{b_, {1, 3}}, {b_, {5, 6}}});
  EXPECT_THAT(RowsOf(0, 0), IsEmpty());
  EXPECT_THAT(RowsOf(0, 1), ElementsAre(ItemRange{0, 4})) << "others were asked for ahead";
  EXPECT_THAT(RowsOf(0, 3), ElementsAre(ItemRange{0, 9}, ItemRange{0, 3}, ItemRange{5, 6}));
  EXPECT_THAT(RowsOf(0, 3), ElementsAre(ItemRange{0, 9}, ItemRange{0, 3}, ItemRange{5, 6}));
  log_.OnBatch(0, {});
  EXPECT_TRUE(log_.Of(0, 4)) << "a batch without rows is one";
}

TEST_F(EpochLogTest, DoesNotKnowOfBatchesThatItHasNotSeen) {
  log_.OnBatch(0, {{a_, {0, 4}}});
  EXPECT_FALSE(log_.Of(0, 2));
  EXPECT_TRUE(log_.Of(0, 1));
  EXPECT_FALSE(log_.Of(0, 0)) << "it has added up more";
  EXPECT_FALSE(log_.Of(1, 1));
}

TEST_F(EpochLogTest, AddsUpBatchesOfLongAgo) {
  for (std::uint64_t row = 0; row <= EpochLog::kMostAhead; ++row) {
    log_.OnBatch(0, {{a_, {row, row + 1}}});
  }
  EXPECT_FALSE(log_.Of(0, 0));
  EXPECT_THAT(RowsOf(0, 1), ElementsAre(ItemRange{0, 1}));
  EXPECT_THAT(RowsOf(0, EpochLog::kMostAhead + 1),
              ElementsAre(ItemRange{0, EpochLog::kMostAhead + 1}));
}

TEST_F(EpochLogTest, KeepsOneEpoch) {
  log_.OnBatch(0, {{a_, {0, 4}}});
  EXPECT_THAT(RowsOf(1, 0), IsEmpty()) << "none of it came to this node";
  log_.OnBatch(1, {{b_, {0, 2}}});
  EXPECT_FALSE(log_.Of(0, 1));
  EXPECT_FALSE(log_.Of(0, 0));
  EXPECT_THAT(RowsOf(1, 1), ElementsAre(ItemRange{0, 2}));
}

TEST_F(EpochLogTest, KeepsNothingBeforeItIsAskedTo) {
  EpochLog log;
  log.OnBatch(0, {{a_, {0, 4}}});
  EXPECT_FALSE(log.Of(0, 0));
  log.OnPassed(0, {a_, {4, 5}});
  log.Begin();
  log.OnPassed(1, {a_, {5, 6}});
  ASSERT_TRUE(log.Of(1, 0));
  EXPECT_EQ(log.Of(1, 0)->passed.at(0).first, 2u) << "numbers count all that was passed on";
}

TEST_F(EpochLogTest, RowsWithoutAPlaceInTheDataAreNotKnown) {
  log_.OnBatch(0, {{a_, {0, 4}}});
  log_.OnBatch(0, {{nullptr, {0, 4}}});
  EXPECT_TRUE(log_.Of(0, 1));
  EXPECT_FALSE(log_.Of(0, 2));
  log_.OnBatch(1, {{a_, {0, 4}}, {Chunk(1, {2}), {0, 4}}});
  EXPECT_FALSE(log_.Of(1, 1)) << "of two jobs";
  log_.OnBatch(2, {{a_, {0, 4}}});
  EXPECT_TRUE(log_.Of(2, 1));
}

TEST_F(EpochLogTest, WhatSeveralPassesHaveTakenIsNotKnown) {
  log_.OnBatch(0, {{a_, {0, 4}}});
  log_.OnOtherPass();
  log_.OnBatch(0, {{a_, {4, 9}}});
  EXPECT_FALSE(log_.Of(0, 1));
  EXPECT_EQ(log_.BatchesOf(0), 2u);
  log_.OnBatch(1, {{b_, {0, 2}}});
  EXPECT_TRUE(log_.Of(1, 1));
  EXPECT_EQ(log_.BatchesOf(1), 1u);
  EXPECT_FALSE(log_.BatchesOf(0));
}

TEST_F(EpochLogTest, WhatWasPassedOnHasNumbers) {
  log_.OnBatch(3, {{a_, {0, 4}}});
  log_.OnPassed(3, {a_, {7, 9}});
  log_.OnPassed(3, {a_, {5, 7}});
  const auto position = log_.Of(3, 1);
  ASSERT_TRUE(position);
  ASSERT_EQ(position->passed.size(), 2u);
  EXPECT_EQ(position->passed[0].first, 1u);
  EXPECT_EQ(position->passed[0].second.rows, (ItemRange{7, 9}));
  EXPECT_EQ(position->passed[1].first, 2u);
  log_.OnPassed(4, {Passed(0, 1), {5, 7}});
  EXPECT_FALSE(log_.Of(4, 0)) << "by two nodes";
}

}  // namespace
}  // namespace tfos::feed
