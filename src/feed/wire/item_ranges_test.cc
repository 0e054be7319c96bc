#include "feed/wire/item_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <set>

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ItemRanges Of(std::initializer_list<ItemRange> ranges) {
  ItemRanges result;
  for (const ItemRange& range : ranges) result.Add(range);
  return result;
}

TEST(ItemRangesTest, NeighboursAndOverlapsBecomeOne) {
  EXPECT_THAT(Of({{0, 5}, {5, 9}}).ranges(), ElementsAre(ItemRange{0, 9}));
  EXPECT_THAT(Of({{5, 9}, {0, 5}}).ranges(), ElementsAre(ItemRange{0, 9}));
  EXPECT_THAT(Of({{0, 2}, {8, 9}, {4, 5}}).ranges(),
              ElementsAre(ItemRange{0, 2}, ItemRange{4, 5}, ItemRange{8, 9}));
  EXPECT_THAT(Of({{0, 2}, {4, 5}, {8, 9}, {1, 8}}).ranges(), ElementsAre(ItemRange{0, 9}));
  EXPECT_THAT(Of({{0, 9}, {3, 4}}).ranges(), ElementsAre(ItemRange{0, 9}));
}

TEST(ItemRangesTest, NoItemsAreNoRange) {
  EXPECT_THAT(Of({{3, 3}, {5, 4}}).ranges(), IsEmpty());
  EXPECT_THAT(Of({{0, 2}, {1, 1}, {7, 7}}).ranges(), ElementsAre(ItemRange{0, 2}));
}

TEST(ItemRangesTest, CountsThoseOfARange) {
  const ItemRanges ranges = Of({{2, 5}, {8, 10}});
  EXPECT_EQ(ranges.ItemsIn({0, 20}), 5u);
  EXPECT_EQ(ranges.ItemsIn({3, 9}), 3u);
  EXPECT_EQ(ranges.ItemsIn({5, 8}), 0u);
  EXPECT_EQ(ranges.ItemsIn({4, 4}), 0u);
}

TEST(ItemRangesTest, StretchesCoverEverything) {
  const ItemRanges ranges = Of({{2, 4}, {7, 8}});
  const auto from = [&](std::uint64_t item) {
    const ItemRanges::Stretch stretch = ranges.From(item);
    return std::pair(stretch.contained, stretch.end);
  };
  EXPECT_EQ(from(0), std::pair(false, std::uint64_t{2}));
  EXPECT_EQ(from(2), std::pair(true, std::uint64_t{4}));
  EXPECT_EQ(from(3), std::pair(true, std::uint64_t{4}));
  EXPECT_EQ(from(4), std::pair(false, std::uint64_t{7}));
  EXPECT_EQ(from(7), std::pair(true, std::uint64_t{8}));
  EXPECT_EQ(from(8), std::pair(false, std::numeric_limits<std::uint64_t>::max()));
}

TEST(ItemRangesTest, AgreesWithASetOfItems) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    ItemRanges ranges;
    std::set<std::uint64_t> items;
    for (int step = 0; step < 20; ++step) {
      const std::uint64_t begin = random() % 100;
      const std::uint64_t end = begin + random() % 12;
      ranges.Add({begin, end});
      for (std::uint64_t item = begin; item < end; ++item) items.insert(item);
    }
    EXPECT_EQ(ranges.items(), items.size());
    for (std::uint64_t item = 0; item < 120; ++item) {
      EXPECT_EQ(ranges.From(item).contained, items.contains(item));
    }
    for (std::size_t i = 1; i < ranges.ranges().size(); ++i) {
      EXPECT_LT(ranges.ranges()[i - 1].end, ranges.ranges()[i].begin);
    }
  }
}

}  // namespace
}  // namespace tfos::feed
