#include "node/left_of.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace tfos::node {
namespace {

TEST(LeftOfTest, IsTheDifferenceWhereThatIsNotNegative) {
  EXPECT_EQ(LeftOf(7, 3), 4U);
  EXPECT_EQ(LeftOf(7, 7), 0U);
}

TEST(LeftOfTest, NothingIsLeftWhereThePartIsMore) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(LeftOf(6, 7), 0U);
  EXPECT_EQ(LeftOf(0, kMost), 0U);
}

}  // namespace
}  // namespace tfos::node
