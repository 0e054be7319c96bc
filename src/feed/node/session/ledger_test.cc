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
  ledger.Add(Key(1, 0, 0), {{0, 10}, 5}, 100);
  ledger.Add(Key(1, 1, 0), {{0, 20}, 6}, 100);
  ledger.Add(Key(1, 0, 1), {{0, 30}, 7}, 100);
  ledger.Add(Key(2, 0, 0), {{0, 40}, 8}, 100);
  ledger.Add(Key(1, 0, 0), {{15, 17}, 9}, 100);
  ledger.Add(Key(1, 0, 0), {{10, 11}, 4}, 100);
  ledger.Add(Key(1, 0, 0), {{20, 20}, 3}, 100);
  EXPECT_THAT(ledger.Accepted(Key(1, 0, 0)),
              ElementsAre(AcceptedChunk{{0, 10}, 5}, AcceptedChunk{{10, 11}, 4},
                          AcceptedChunk{{15, 17}, 9}));
  EXPECT_THAT(ledger.Accepted(Key(1, 1, 0)), ElementsAre(AcceptedChunk{{0, 20}, 6}));
  EXPECT_THAT(ledger.Accepted(Key(1, 0, 1)), ElementsAre(AcceptedChunk{{0, 30}, 7}));
  EXPECT_THAT(ledger.Accepted(Key(2, 0, 0)), ElementsAre(AcceptedChunk{{0, 40}, 8}));
  EXPECT_THAT(ledger.Accepted(Key(3, 0, 0)), IsEmpty());
}

TEST(LedgerTest, CountsTheBytesOfEachEpoch) {
  Ledger ledger;
  ledger.Add(Key(1, 0, 0), {{0, 10}, 5}, 100);
  ledger.Add(Key(1, 0, 7), {{0, 10}, 5}, 20);
  ledger.Add(Key(1, 1, 0), {{0, 10}, 5}, 3);
  EXPECT_EQ(ledger.Bytes({1}, 0), 120u);
  EXPECT_EQ(ledger.Bytes({1}, 1), 3u);
  EXPECT_EQ(ledger.Bytes({2}, 0), 0u);
  ledger.EndJob({1});
  ledger.Add(Key(1, 0, 0), {{10, 20}, 5}, 100);
  EXPECT_EQ(ledger.Bytes({1}, 0), 0u) << "of a job that has ended nothing is kept";
}

TEST(LedgerTest, WhatNoConsumerHadIsTakenBack) {
  Ledger ledger;
  ledger.Add(Key(1, 0, 0), {{0, 4}, 1}, 100);
  ledger.Add(Key(1, 0, 0), {{4, 6}, 2}, 100);
  ledger.Remove(Key(1, 0, 0), {4, 6});
  ledger.Remove(Key(1, 0, 1), {0, 10});
  EXPECT_THAT(ledger.Accepted(Key(1, 0, 0)), ElementsAre(AcceptedChunk{{0, 4}, 1}));
  ledger.Add(Key(1, 0, 0), {{4, 5}, 3}, 100);
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)).size(), 2u) << "the next attempt brings them again";
}

TEST(LedgerTest, BeyondItsCapacityItForgetsWhatItHasNotHeardOfForLongest) {
  Ledger ledger(6);
  ledger.Add(Key(1, 0, 0), {{0, 1}, 0}, 100);
  ledger.Add(Key(1, 0, 1), {{0, 2}, 0}, 100);
  ledger.Add(Key(1, 0, 0), {{5, 6}, 0}, 100);
  EXPECT_EQ(ledger.forgotten(), 0u);
  ledger.Add(Key(1, 0, 2), {{0, 4}, 0}, 100);
  EXPECT_THAT(ledger.Accepted(Key(1, 0, 1)), IsEmpty());
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)).size(), 2u) << "seen first, and heard of since";
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 2)).size(), 1u);
  EXPECT_EQ(ledger.forgotten(), 1u);
}

// A straggler that Spark runs again would feed all its rows a second time.
TEST(LedgerTest, PartitionsThatAreBeingFedAreNotForgotten) {
  Ledger ledger(4);
  ledger.BeginSession(Key(1, 0, 0));
  ledger.Add(Key(1, 0, 0), {{0, 1}, 0}, 100);
  for (std::uint32_t i = 1; i < 100; ++i) ledger.Add(Key(1, 0, i), {{0, 1}, 0}, 100);
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)).size(), 1u);
  ledger.EndSession(Key(1, 0, 0));
  for (std::uint32_t i = 1; i < 100; ++i) ledger.Add(Key(1, 0, i), {{0, 1}, 0}, 100);
  EXPECT_THAT(ledger.Accepted(Key(1, 0, 0)), IsEmpty());
}

TEST(LedgerTest, AJobThatHasEndedTakesNoMemoryWhateverStillComesOfIt) {
  Ledger ledger;
  ledger.Add(Key(1, 0, 0), {{0, 1}, 0}, 100);
  ledger.Add(Key(2, 0, 0), {{0, 1}, 0}, 100);
  ledger.TakenOverBy(Key(1, 7, 1), 3);
  ledger.BeginSession(Key(1, 7, 2));
  ledger.EndJob({1});
  EXPECT_EQ(ledger.partitions(), 1u) << "the other job's";
  EXPECT_TRUE(ledger.HasEnded({1}));
  EXPECT_FALSE(ledger.HasEnded({2}));
  ledger.Add(Key(1, 7, 2), {{0, 1}, 0}, 100);
  ledger.Remove(Key(1, 7, 2), {0, 1});
  ledger.EndSession(Key(1, 7, 2));
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), 4), std::nullopt);
  EXPECT_EQ(ledger.TakenOverBy(Key(1, 0, 0), 3), std::nullopt);
  ledger.EndJob({1});
  EXPECT_EQ(ledger.partitions(), 1u);
  EXPECT_EQ(ledger.forgotten(), 0u);
}

TEST(LedgerTest, OfTheJobsThatHaveEndedItKnowsTheLast) {
  Ledger ledger;
  const auto job = [](std::size_t number) {
    return JobId{static_cast<std::uint8_t>(number), static_cast<std::uint8_t>(number >> 8)};
  };
  for (std::size_t number = 0; number <= Ledger::kEndedJobs; ++number) ledger.EndJob(job(number));
  EXPECT_FALSE(ledger.HasEnded(job(0)));
  EXPECT_TRUE(ledger.HasEnded(job(1)));
  EXPECT_TRUE(ledger.HasEnded(job(Ledger::kEndedJobs)));
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
