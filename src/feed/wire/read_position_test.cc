#include "feed/wire/read_position.h"

#include <gtest/gtest.h>

namespace tfos::feed {
namespace {

TEST(ReadPosition, SurvivesTheWord) {
  const ReadPosition position = ReadPosition::Unpack(ReadPosition{.chunk = 7, .rows = 9}.Packed());
  EXPECT_EQ(position.chunk, 7u);
  EXPECT_EQ(position.rows, 9u);
}

TEST(ReadTracker, StandsAtTheFirstChunkThatIsNotRead) {
  ReadTracker tracker;
  EXPECT_TRUE(tracker.all_read());
  for (int i = 0; i < 3; ++i) tracker.Accept();
  tracker.Read(0, 5);
  EXPECT_EQ(tracker.position().chunk, 0u);
  EXPECT_EQ(tracker.position().rows, 5u);
  tracker.Read(1, ReadTracker::kAllRows);
  tracker.Read(2, 4);
  EXPECT_EQ(tracker.position().chunk, 0u);
  tracker.Read(0, ReadTracker::kAllRows);
  EXPECT_EQ(tracker.position().chunk, 2u);
  EXPECT_EQ(tracker.position().rows, 4u);
  EXPECT_FALSE(tracker.all_read());
  tracker.Read(2, ReadTracker::kAllRows);
  EXPECT_TRUE(tracker.all_read());
  EXPECT_EQ(tracker.position().chunk, 3u);
  EXPECT_EQ(tracker.position().rows, 0u);
}

TEST(ReadTracker, WhatWasReadIsReadOnce) {
  ReadTracker tracker;
  tracker.Accept();
  tracker.Accept();
  tracker.Read(0, ReadTracker::kAllRows);
  tracker.Read(0, ReadTracker::kAllRows);
  EXPECT_EQ(tracker.position().chunk, 1u);
  EXPECT_FALSE(tracker.all_read());
}

}  // namespace
}  // namespace tfos::feed
