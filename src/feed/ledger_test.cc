#include "feed/ledger.h"

#include <gtest/gtest.h>

namespace tfos::feed {
namespace {

PartitionKey Key(std::uint8_t job, std::uint32_t epoch, std::uint32_t partition) {
  return {.job = {job}, .epoch = epoch, .partition = partition};
}

TEST(LedgerTest, KeepsJobsEpochsAndPartitionsApart) {
  Ledger ledger;
  ledger.Set(Key(1, 0, 0), 10);
  ledger.Set(Key(1, 1, 0), 20);
  ledger.Set(Key(1, 0, 1), 30);
  ledger.Set(Key(2, 0, 0), 40);
  ledger.Set(Key(1, 0, 0), 11);
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)), 11u);
  EXPECT_EQ(ledger.Accepted(Key(1, 1, 0)), 20u);
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 1)), 30u);
  EXPECT_EQ(ledger.Accepted(Key(2, 0, 0)), 40u);
  EXPECT_EQ(ledger.Accepted(Key(3, 0, 0)), 0u);
}

TEST(LedgerTest, ForgetsTheOldestBeyondItsCapacity) {
  Ledger ledger(2);
  ledger.Set(Key(1, 0, 0), 1);
  ledger.Set(Key(1, 0, 1), 2);
  ledger.Set(Key(1, 0, 0), 3);
  ledger.Set(Key(1, 0, 2), 4);
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 0)), 0u);
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 1)), 2u);
  EXPECT_EQ(ledger.Accepted(Key(1, 0, 2)), 4u);
}

}  // namespace
}  // namespace tfos::feed
