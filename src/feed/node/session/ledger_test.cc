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
  Ledger ledger(3);
  ledger.Add(Key(1, 0, 0), {0, 10});
  ledger.Remove(Key(1, 0, 0), {4, 6});
  EXPECT_THAT(ledger.Accepted(Key(1, 0, 0)).ranges(),
              ElementsAre(ItemRange{0, 4}, ItemRange{6, 10}));
  ledger.Remove(Key(1, 0, 1), {0, 10});
  EXPECT_THAT(ledger.Accepted(Key(1, 0, 1)).ranges(), IsEmpty());
  // It takes no memory any more: two ranges and one more are within the capacity.
  ledger.Remove(Key(1, 0, 0), {6, 10});
  ledger.Add(Key(1, 0, 2), {0, 1});
  ledger.Add(Key(1, 0, 3), {0, 1});
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)).items(), 4u);
  ledger.Add(Key(1, 0, 0), {4, 6});
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)).items(), 6u) << "the next attempt brings them again";
}

TEST(LedgerTest, ForgetsTheOldestBeyondItsCapacity) {
  Ledger ledger(3);
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

TEST(LedgerTest, WhoHasBeenOvertakenStaysSo) {
  Ledger ledger;
  // As a stage that Spark repeats does, the second one counts from 0 again.
  const Attempt first{.number = 0, .id = 7};
  const Attempt second{.number = 0, .id = 5};
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), first), std::nullopt);
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), first), std::nullopt);
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), second), std::nullopt);
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), first), second);
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), second), std::nullopt);
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 1), first), std::nullopt) << "another partition";
}

TEST(LedgerTest, AttemptsAtOnePartitionAreNotKeptWithoutEnd) {
  Ledger ledger;
  const auto attempt = [](std::uint64_t id) { return Attempt{.number = 0, .id = id}; };
  for (std::uint64_t id = 0; id <= Ledger::kMostAttempts; ++id) {
    EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), attempt(id)), std::nullopt);
  }
  const Attempt last = attempt(Ledger::kMostAttempts);
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), attempt(1)), last) << "overtaken, and remembered";
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), attempt(0)), std::nullopt) << "forgotten";
}

TEST(LedgerTest, AttemptsTakeMemoryToo) {
  Ledger ledger(3);
  ledger.Add(Key(1, 0, 0), {0, 1});
  for (std::uint64_t id = 0; id < 3; ++id) ledger.TakenOverBy(Key(1, 0, 1), {.id = id});
  EXPECT_THAT(ledger.Accepted(Key(1, 0, 0)).ranges(), IsEmpty());
}

}  // namespace
}  // namespace tfos::feed
