#include "base/time/seconds.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/time/deadline.h"

namespace tfos {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(SecondsTest, ConvertsWhatADurationHolds) {
  EXPECT_EQ(SaturatingSeconds(1.5), milliseconds(1500));
  EXPECT_EQ(SaturatingSeconds<nanoseconds>(0.25), milliseconds(250));
}

TEST(SecondsTest, SaturatesAtWhatTheClockHolds) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double seconds : {9.3e9, 1e300, kInfinity}) {
    EXPECT_EQ(SaturatingSeconds<nanoseconds>(seconds), nanoseconds::max());
    EXPECT_TRUE(Deadline::After(SaturatingSeconds(seconds)).infinite()) << seconds;
  }
  for (const double seconds : {-1.0, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(SaturatingSeconds(seconds), milliseconds::zero());
  }
}

}  // namespace
}  // namespace tfos
