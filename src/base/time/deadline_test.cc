#include "base/time/deadline.h"

#include <gtest/gtest.h>

namespace tfos {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(DeadlineTest, PassesWhenTheClockReachesIt) {
  ManualClock clock;
  Deadline deadline = Deadline::After(milliseconds(10), clock);
  EXPECT_FALSE(deadline.passed());
  clock.Advance(milliseconds(10));
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(deadline.Remaining(), Clock::Duration::zero());
}

TEST(DeadlineTest, PollRoundsUpSoThatNobodySpins) {
  ManualClock clock;
  EXPECT_EQ(Deadline::After(nanoseconds(1), clock).PollMilliseconds(), 1);
  EXPECT_EQ(Deadline::Infinite(clock).PollMilliseconds(), -1);
}

TEST(DeadlineTest, HugeDurationIsInfinite) {
  EXPECT_TRUE(Deadline::After(Clock::Duration::max()).infinite());
}

TEST(DeadlineTest, MinIsTheEarlier) {
  ManualClock clock;
  Deadline soon = Deadline::After(milliseconds(1), clock);
  EXPECT_EQ(Deadline::Infinite(clock).Min(soon).at(), soon.at());
}

}  // namespace
}  // namespace tfos
