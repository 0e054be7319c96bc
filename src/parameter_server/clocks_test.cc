#include "parameter_server/clocks.h"

#include <gtest/gtest.h>

namespace tfos::parameter_server {
namespace {

TEST(ClocksTest, NobodyIsFurtherAheadThanAllowed) {
  Clocks clocks;
  clocks.Join(1, "worker:0");
  clocks.Join(2, "worker:1");
  for (int i = 0; i < 3; ++i) clocks.Advance(1);
  EXPECT_FALSE(clocks.WaitsFor(1, 3));
  const auto slower = clocks.WaitsFor(1, 2);
  ASSERT_TRUE(slower);
  EXPECT_EQ(slower->name, "worker:1");
  EXPECT_EQ(slower->clock, 0U);
  EXPECT_FALSE(clocks.WaitsFor(2, 0)) << "the slowest waits for nobody";
  clocks.Advance(2);
  EXPECT_FALSE(clocks.WaitsFor(1, 2));
}

TEST(ClocksTest, NobodyWaitsForOneThatIsGone) {
  Clocks clocks;
  clocks.Join(1, "a");
  clocks.Join(2, "b");
  clocks.Advance(1);
  EXPECT_TRUE(clocks.WaitsFor(1, 0));
  clocks.Leave(2);
  EXPECT_FALSE(clocks.WaitsFor(1, 0));
  EXPECT_FALSE(clocks.WaitsFor(2, 0));
}

TEST(ClocksTest, WhoJoinsAgainStaysWhereItIs) {
  Clocks clocks;
  clocks.Join(1, "a");
  clocks.Join(2, "b");
  clocks.Advance(1);
  clocks.Join(1, "a");
  EXPECT_EQ(clocks.clock(1), 1U);
}

TEST(ClocksTest, WhoComesLaterIsAsFarAsTheSlowest) {
  Clocks clocks;
  clocks.Join(1, "a");
  for (int i = 0; i < 10; ++i) clocks.Advance(1);
  clocks.Join(2, "b");
  EXPECT_EQ(clocks.clock(2), 10U);
  EXPECT_FALSE(clocks.WaitsFor(1, 0));
}

TEST(ClocksTest, WhoComesAnewIsNotBehindWhereItWas) {
  Clocks clocks;
  clocks.Join(1, "a", 4);
  EXPECT_EQ(clocks.clock(1), 4U) << "it is alone";
  clocks.Join(2, "b", 6);
  EXPECT_EQ(clocks.clock(2), 6U);
  EXPECT_TRUE(clocks.WaitsFor(2, 1));
  clocks.Join(3, "c", 2);
  EXPECT_EQ(clocks.clock(3), 4U) << "nobody waits longer for it than for the slowest";
}

}  // namespace
}  // namespace tfos::parameter_server
