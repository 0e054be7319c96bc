#include "control/coordinator/history/share_meter.h"

#include <gtest/gtest.h>

namespace tfos::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Grows by so much in each second.
double Grow(ShareMeter& meter, double& share, seconds& now, int times, double by) {
  for (int i = 0; i < times; ++i) {
    share += by;
    now += seconds(1);
    meter.Take(share, now);
  }
  return meter.Left().has_value() ? meter.Left()->count() : -1;
}

TEST(ShareMeterTest, KnowsWhatIsLeftOfSteadyWork) {
  ShareMeter meter;
  double share = 0.2;
  seconds now(100);
  meter.Take(share, now);
  EXPECT_FALSE(meter.Left().has_value());
  EXPECT_LT(Grow(meter, share, now, 10, 0.01), 0) << "too early to say";
  EXPECT_NEAR(Grow(meter, share, now, 1, 0.01), 69, 0.1);
  EXPECT_NEAR(Grow(meter, share, now, 68, 0.01), 1, 0.1);
}

TEST(ShareMeterTest, APauseDoesNotMakeItJump) {
  ShareMeter meter;
  double share = 0;
  seconds now(0);
  meter.Take(share, now);
  const double before = Grow(meter, share, now, 100, 0.001);
  const double after = Grow(meter, share, now, 10, 0);
  EXPECT_GT(after, before);
  EXPECT_LT(after, 1.5 * before);
}

TEST(ShareMeterTest, FollowsASpeedThatStays) {
  ShareMeter meter;
  double share = 0;
  seconds now(0);
  meter.Take(share, now);
  Grow(meter, share, now, 30, 0.01);
  EXPECT_NEAR(Grow(meter, share, now, 200, 0.001) / ((1 - share) / 0.001), 1, 0.2);
}

TEST(ShareMeterTest, TheTimeBeforeTheWorkBeginsIsNotItsSpeed) {
  ShareMeter meter;
  double share = 0;
  seconds now(0);
  meter.Take(share, now);
  EXPECT_LT(Grow(meter, share, now, 300, 0), 0);
  EXPECT_LT(Grow(meter, share, now, 1, 0.01), 0) << "one step tells nothing";
  EXPECT_NEAR(Grow(meter, share, now, 10, 0.01), 89, 0.1);
}

TEST(ShareMeterTest, WorkThatStopsHasNoEndUntilItGoesOn) {
  ShareMeter meter;
  double share = 0;
  seconds now(0);
  meter.Take(share, now);
  EXPECT_GT(Grow(meter, share, now, 60, 0.001), 0);
  EXPECT_LT(Grow(meter, share, now, 11, 0), 0);
  EXPECT_LT(Grow(meter, share, now, 1000, 0), 0);
  EXPECT_GT(Grow(meter, share, now, 1, 0.001), 0);
}

TEST(ShareMeterTest, SlowStepsAreNoStandstill) {
  ShareMeter meter;
  double share = 0;
  seconds now(0);
  meter.Take(share, now);
  Grow(meter, share, now, 1, 0.01);
  EXPECT_LT(Grow(meter, share, now, 59, 0), 0);
  for (int step = 0; step < 3; ++step) {
    Grow(meter, share, now, 1, 0.01);
    Grow(meter, share, now, 59, 0);
  }
  EXPECT_TRUE(meter.Left().has_value());
  EXPECT_LT(Grow(meter, share, now, 200, 0), 0);
}

TEST(ShareMeterTest, WorkThatStandsStillHasNoEnd) {
  ShareMeter meter;
  double share = 0.5;
  seconds now(0);
  meter.Take(share, now);
  EXPECT_LT(Grow(meter, share, now, 60, 0), 0);
}

TEST(ShareMeterTest, OtherWorkBeginsAnew) {
  ShareMeter meter;
  double share = 0.5;
  seconds now(0);
  meter.Take(share, now);
  Grow(meter, share, now, 20, 0.01);
  ASSERT_TRUE(meter.Left().has_value());
  meter.Take(0.1, now + seconds(1));
  EXPECT_FALSE(meter.Left().has_value());
  Grow(meter, share, now, 20, 0.01);
  meter.Take(std::nullopt, now + seconds(1));
  EXPECT_FALSE(meter.Left().has_value());
}

TEST(ShareMeterTest, AClockThatStandsStillIsNoSpeed) {
  ShareMeter meter;
  for (int i = 0; i < 10; ++i) meter.Take(0.1 * i, milliseconds(5));
  EXPECT_FALSE(meter.Left().has_value());
}

}  // namespace
}  // namespace tfos::control
