#include "control/coordinator/roster/offices/step_watch.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/time/deadline.h"

namespace tfos::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class StepWatchTest : public ::testing::Test {
 protected:
  /// Reports `step`, as a heartbeat after `later` has it.
  std::int64_t Report(std::int64_t step, milliseconds later = seconds(1), bool explained = false) {
    clock_.Advance(later);
    watch_.Take({{"step", step},
                 {"feed_node_wait_seconds", waited_},
                 {"rows", rows_},
                 {"steps_passed_over", passed_over_}},
                explained, clock_.Now());
    return watch_.without_step().count();
  }
  /// The same for `times` heartbeats, one a second.
  std::int64_t Stand(int times, std::int64_t step, bool explained = false) {
    for (int i = 1; i < times; ++i) Report(step, seconds(1), explained);
    return Report(step, seconds(1), explained);
  }

  ManualClock clock_;
  StepWatch watch_;
  double waited_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t passed_over_ = 0;
};

TEST_F(StepWatchTest, ANodeThatMadeStepsHasStoppedAfterHalfAMinute) {
  for (std::int64_t step = 0; step <= 5; ++step) EXPECT_EQ(Report(step), 0);
  EXPECT_EQ(Stand(29, 5), 0);
  EXPECT_EQ(Stand(1, 5), 30);
  EXPECT_EQ(Stand(40, 5), 70);
  EXPECT_EQ(Report(6), 0) << "it goes on";
}

TEST_F(StepWatchTest, LongStepsAreUsualForTenOfThem) {
  for (std::int64_t step = 1; step <= 5; ++step) EXPECT_EQ(Report(step, seconds(20)), 0);
  EXPECT_EQ(Report(5, seconds(199)), 0);
  EXPECT_EQ(Report(5, seconds(1)), 200);
}

TEST_F(StepWatchTest, RareReportsOfManyStepsAreUsual) {
  for (std::int64_t step = 1000; step <= 5000; step += 1000) Report(step, seconds(60));
  EXPECT_EQ(Report(5000, seconds(599)), 0);
  EXPECT_EQ(Report(5000, seconds(1)), 600);
}

TEST_F(StepWatchTest, WhatMadeFewStepsIsNotKnown) {
  EXPECT_EQ(Report(0), 0);
  EXPECT_EQ(Stand(300, 0), 0) << "the first step is compiled";
  EXPECT_EQ(Report(1), 0);
  EXPECT_EQ(Stand(300, 1), 0);
  StepWatch none;
  none.Take({}, false, clock_.Now());
  clock_.Advance(seconds(300));
  none.Take({}, false, clock_.Now());
  EXPECT_EQ(none.without_step(), seconds(0));
}

TEST_F(StepWatchTest, WaitingForRowsIsNoStop) {
  for (std::int64_t step = 1; step <= 5; ++step) Report(step);
  for (int i = 0; i < 100; ++i) {
    waited_ += 0.9;
    EXPECT_EQ(Report(5), 0);
  }
}

TEST_F(StepWatchTest, WhatIsExplainedIsNoStopAndBeginsAnew) {
  for (std::int64_t step = 1; step <= 5; ++step) Report(step);
  EXPECT_EQ(Stand(100, 5, true), 0);
  EXPECT_EQ(Stand(29, 5), 0);
  EXPECT_EQ(Stand(1, 5), 30);
}

TEST_F(StepWatchTest, ItStandsFromItsLatestStepOnWhateverItDoes) {
  Report(1);
  EXPECT_EQ(watch_.standing(), seconds(0));
  Stand(10, 1, true);
  EXPECT_EQ(watch_.standing(), seconds(10));
  EXPECT_EQ(Stand(10, 1), 0) << "people are not told yet";
  EXPECT_EQ(watch_.standing(), seconds(20));
  Report(2);
  EXPECT_EQ(watch_.standing(), seconds(0));
}

TEST_F(StepWatchTest, BeforeItsFirstStepItDoesNotStand) {
  Stand(100, 0);
  EXPECT_EQ(watch_.standing(), seconds(0));
  watch_ = StepWatch();
  Stand(100, 500, true);
  Stand(3, 500);
  EXPECT_EQ(watch_.standing(), seconds(0)) << "it joins, and said from which step it goes on";
  Report(501);
  Stand(3, 501);
  EXPECT_EQ(watch_.standing(), seconds(3));
}

TEST_F(StepWatchTest, WhatItWaitsForRowsIsNotStanding) {
  Report(1);
  Report(2);
  waited_ += 60;
  Report(2, seconds(60));
  EXPECT_EQ(watch_.standing(), seconds(0));
  Stand(5, 2);
  EXPECT_EQ(watch_.standing(), seconds(5)) << "at once, and not as long as it had waited";
  ++rows_;
  Report(2);
  EXPECT_EQ(watch_.standing(), seconds(0)) << "it reads rows, in an evaluation for one";
  Stand(5, 2);
  EXPECT_EQ(watch_.standing(), seconds(5));
}

TEST_F(StepWatchTest, PassingOverStepsIsNotStanding) {
  Report(1);
  Report(1000, seconds(1), true);  // It goes on from there, in a second fit.
  for (int i = 0; i < 100; ++i) {
    ++passed_over_;
    Report(1000, seconds(20), true);
    EXPECT_EQ(watch_.standing(), seconds(0));
  }
  Stand(5, 1000, true);
  EXPECT_EQ(watch_.standing(), seconds(5)) << "it reads no further batch";
}

TEST_F(StepWatchTest, WhatIsExcusedIsNotStanding) {
  Report(1);
  Report(2);
  waited_ += 2;
  Stand(10, 2);
  EXPECT_EQ(watch_.standing(), seconds(8));
  watch_.Excuse(clock_.Now());
  EXPECT_EQ(watch_.standing(), seconds(0));
  Stand(4, 2);
  EXPECT_EQ(watch_.standing(), seconds(4));
}

TEST_F(StepWatchTest, AProgramThatCountsAnewGoesOn) {
  for (std::int64_t step = 1; step <= 5; ++step) Report(step);
  EXPECT_EQ(Stand(31, 5), 31);
  EXPECT_EQ(Report(0), 0);
}

}  // namespace
}  // namespace tfos::control
