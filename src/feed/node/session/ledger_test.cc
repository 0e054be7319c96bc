#include "feed/node/session/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PartitionKey Key(std::uint8_t job, std::uint32_t epoch, std::uint32_t partition) {
  return {.job = {job}, .epoch = epoch, .partition = partition};
}

TEST(LedgerTest, KeepsJobsEpochsAndPartitionsApart) {
  Ledger ledger;
  ledger.Add(Key(1, 0, 0), {0, 10});
  ledger.Add(Key(1, 1, 0), {0, 20});
  ledger.Add(Key(1, 0, 1), {0, 30});
  ledger.Add(Key(2, 0, 0), {0, 40});
  ledger.Add(Key(1, 0, 0), {10, 11});
  ledger.Add(Key(1, 0, 0), {15, 17});
  EXPECT_THAT(ledger.Accepted(Key(1, 0, 0)).ranges(),
              ElementsAre(ItemRange{0, 11}, ItemRange{15, 17}));
  EXPECT_EQ(ledger.Accepted(Key(1, 1, 0)).items(), 20u);
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 1)).items(), 30u);
  EXPECT_EQ(ledger.Accepted(Key(2, 0, 0)).items(), 40u);
  EXPECT_THAT(ledger.Accepted(Key(3, 0, 0)).ranges(), IsEmpty());
}

TEST(LedgerTest, WhatNoConsumerHadIsTakenBack) {
  Ledger ledger(6);
  ledger.Add(Key(1, 0, 0), {0, 10});
  ledger.Remove(Key(1, 0, 0), {4, 6});
  EXPECT_THAT(ledger.Accepted(Key(1, 0, 0)).ranges(),
              ElementsAre(ItemRange{0, 4}, ItemRange{6, 10}));
  ledger.Remove(Key(1, 0, 1), {0, 10});
  EXPECT_THAT(ledger.Accepted(Key(1, 0, 1)).ranges(), IsEmpty());
  // It takes no memory any more: three ranges of three partitions are within the capacity.
  ledger.Remove(Key(1, 0, 0), {6, 10});
  ledger.Add(Key(1, 0, 2), {0, 1});
  ledger.Add(Key(1, 0, 3), {0, 1});
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)).items(), 4u);
  ledger.Add(Key(1, 0, 0), {4, 6});
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)).items(), 6u) << "the next attempt brings them again";
}

TEST(LedgerTest, ForgetsTheOldestBeyondItsCapacity) {
  Ledger ledger(6);
  ledger.Add(Key(1, 0, 0), {0, 1});
  ledger.Add(Key(1, 0, 1), {0, 2});
  ledger.Add(Key(1, 0, 0), {5, 6});
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)).items(), 2u);
  ledger.Add(Key(1, 0, 2), {0, 4});
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)).items(), 0u);
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 1)).items(), 2u);
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 2)).items(), 4u);
}

TEST(LedgerTest, ThePartitionBeingFedIsNotForgotten) {
  Ledger ledger(2);
  for (std::uint64_t i = 0; i < 10; ++i) ledger.Add(Key(1, 0, 0), {3 * i, 3 * i + 1});
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)).items(), 10u);
  ledger.Add(Key(1, 0, 1), {7, 7});
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)).items(), 10u) << "no items, nothing to remember";
}

TEST(LedgerTest, TheLatestAttemptOwnsAPartitionInWhateverOrderTheyCome) {
  Ledger ledger;
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), 5), std::nullopt);
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), 5), std::nullopt);
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), 7), std::nullopt);
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), 5), 7u) << "overtaken";
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), 6), 7u) << "it comes last, and has not been here";
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), 7), std::nullopt);
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 1), 5), std::nullopt) << "another partition";
}

}  // namespace
}  // namespace tfos::feed
