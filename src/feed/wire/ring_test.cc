#include "feed/wire/ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace tfos::feed {
namespace {

TEST(RingTest, BlocksFollowEachOtherAligned) {
  Ring ring(1024);
  EXPECT_EQ(ring.LargestFree(), 1024u);
  EXPECT_EQ(ring.Find(100), 0u);
  EXPECT_EQ(ring.Place(0, 100), 0u);
  EXPECT_EQ(ring.Find(1), 128u);
  EXPECT_EQ(ring.Place(128, 64), 1u);
  EXPECT_EQ(ring.Find(1), 192u);
  EXPECT_EQ(ring.LargestFree(), 1024u - 192u);
  EXPECT_EQ(ring.in_flight(), 2u);
}

TEST(RingTest, RefusesWhatIsNotFree) {
  Ring ring(1024);
  ASSERT_TRUE(ring.Place(128, 256));
  EXPECT_FALSE(ring.Place(384, 0)) << "empty";
  EXPECT_FALSE(ring.Place(400, 8)) << "not aligned";
  EXPECT_FALSE(ring.Place(384, 641)) << "beyond the end";
  EXPECT_FALSE(ring.Place(0, 129)) << "into a block from below";
  EXPECT_FALSE(ring.Place(320, 64)) << "inside a block";
  EXPECT_FALSE(ring.Place(0, 1024)) << "over a block";
  EXPECT_FALSE(ring.Place(std::numeric_limits<std::uint64_t>::max() - 63, 128)) << "overflow";
  EXPECT_FALSE(ring.Place(64, std::numeric_limits<std::uint64_t>::max())) << "overflow";
  EXPECT_EQ(ring.in_flight(), 1u);
  EXPECT_TRUE(ring.Place(384, 640));
}

TEST(RingTest, WrapsAroundBehindTheOldest) {
  Ring ring(512);
  ASSERT_EQ(ring.Place(0, 256), 0u);
  ASSERT_EQ(ring.Place(256, 192), 1u);
  EXPECT_EQ(ring.Find(128), std::nullopt);
  EXPECT_EQ(ring.Release(0), 1u);
  EXPECT_EQ(ring.Find(128), 0u) << "64 bytes are left at the end, 256 at the start";
  ASSERT_EQ(ring.Place(0, 128), 2u);
  EXPECT_EQ(ring.Find(128), 128u);
  EXPECT_EQ(ring.LargestFree(), 128u);
  EXPECT_FALSE(ring.Place(448, 64)) << "the end is behind the newest block now";
  EXPECT_EQ(ring.Release(1), 1u);
  EXPECT_EQ(ring.Find(384), 128u);
}

TEST(RingTest, FreesInOrderWhateverTheOrderOfRelease) {
  Ring ring(1024);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(ring.Place(i * 64, 64), i);
  EXPECT_EQ(ring.Release(2), 0u);
  EXPECT_EQ(ring.Release(1), 0u);
  EXPECT_EQ(ring.in_flight(), 4u);
  EXPECT_EQ(ring.Release(0), 3u);
  EXPECT_EQ(ring.Release(3), 1u);
  EXPECT_EQ(ring.Find(1024), 0u) << "an empty ring has no gap";
}

TEST(RingTest, ReleaseOldestRefusesMoreThanThereAre) {
  Ring ring(1024);
  ASSERT_TRUE(ring.Place(0, 64));
  EXPECT_FALSE(ring.ReleaseOldest(2));
  EXPECT_EQ(ring.in_flight(), 1u);
  EXPECT_TRUE(ring.ReleaseOldest(1));
  EXPECT_EQ(ring.in_flight(), 0u);
}

// The feeder's ring runs behind the node's: whatever the feeder finds free, the node accepts.
TEST(RingTest, WhatTheFeederFindsIsFreeForTheNode) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    constexpr std::uint64_t kCapacity = 4096;
    Ring feeder(kCapacity);
    Ring node(kCapacity);
    std::vector<std::uint64_t> lent;
    std::size_t credits = 0;
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t bytes = 1 + random() % 1500;
      if (const std::optional<std::uint64_t> offset = feeder.Find(bytes)) {
        ASSERT_TRUE(feeder.Place(*offset, bytes));
        const std::optional<std::uint64_t> number = node.Place(*offset, bytes);
        ASSERT_TRUE(number) << "round " << round << " step " << step;
        lent.push_back(*number);
      }
      if (!lent.empty() && random() % 2 == 0) {
        const std::size_t which = random() % lent.size();
        credits += node.Release(lent[which]);
        lent.erase(lent.begin() + static_cast<std::ptrdiff_t>(which));
      }
      if (random() % 3 == 0) {
        ASSERT_TRUE(feeder.ReleaseOldest(credits));
        credits = 0;
      }
    }
  }
}

TEST(RingTest, RemembersHowFarItWasUsed) {
  Ring ring(1024);
  EXPECT_EQ(ring.used(), 0u);
  EXPECT_TRUE(ring.Place(0, 100));
  EXPECT_EQ(ring.used(), 128u);
  EXPECT_TRUE(ring.Place(128, 300));
  EXPECT_TRUE(ring.ReleaseOldest(2));
  EXPECT_TRUE(ring.Place(0, 64));
  EXPECT_EQ(ring.used(), 448u);
}

}  // namespace
}  // namespace tfos::feed
