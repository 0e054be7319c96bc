#include "control/agent/child/answer_watch.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tfos::control {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

class AnswerWatchTest : public ::testing::Test {
 protected:
  /// Looks once an interval, for that long.
  void LookFor(AnswerWatch& watch, Clock::Duration duration) {
    for (const auto end = clock_.Now() + duration; clock_.Now() < end;) {
      clock_.Advance(watch.interval());
      watch.Look(clock_.Now());
    }
  }
  bool LookOnce(AnswerWatch& watch) {
    clock_.Advance(watch.interval());
    return watch.Look(clock_.Now());
  }

  ManualClock clock_;
};

TEST_F(AnswerWatchTest, ANodeThatHasNotSaidThatItAnswersIsNotAsked) {
  AnswerWatch watch(seconds(30));
  LookFor(watch, hours(1));
  EXPECT_FALSE(LookOnce(watch));
  EXPECT_EQ(watch.silence(), seconds(0));
  EXPECT_FALSE(watch.out_of_patience());
}

TEST_F(AnswerWatchTest, ANodeThatAnswersIsAskedAgain) {
  AnswerWatch watch(seconds(30));
  watch.OnAnswer();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(LookOnce(watch));
    watch.OnAnswer();
  }
  EXPECT_EQ(watch.silence(), seconds(0));
}

TEST_F(AnswerWatchTest, ASilentNodeIsAskedOnceUntilThePatienceIsOver) {
  AnswerWatch watch(seconds(30));
  watch.OnAnswer();
  EXPECT_TRUE(LookOnce(watch));
  EXPECT_FALSE(LookOnce(watch));
  LookFor(watch, seconds(28));
  EXPECT_EQ(watch.silence(), seconds(29));
  EXPECT_FALSE(watch.out_of_patience());
  LookFor(watch, seconds(1));
  EXPECT_TRUE(watch.out_of_patience());
}

TEST_F(AnswerWatchTest, ALateAnswerBeginsAnew) {
  AnswerWatch watch(seconds(30));
  watch.OnAnswer();
  LookFor(watch, seconds(29));
  watch.OnAnswer();
  EXPECT_EQ(watch.silence(), seconds(0));
  EXPECT_TRUE(LookOnce(watch));
  LookFor(watch, seconds(29));
  EXPECT_FALSE(watch.out_of_patience());
}

TEST_F(AnswerWatchTest, ThePatienceMayBeEndless) {
  AnswerWatch watch{Clock::Duration::zero()};
  watch.OnAnswer();
  LookFor(watch, hours(24));
  EXPECT_GE(watch.silence(), hours(23)) << "it is told all the same";
  EXPECT_FALSE(watch.out_of_patience());
}

TEST_F(AnswerWatchTest, TheTimeInWhichTheAgentStoodStillDoesNotCount) {
  AnswerWatch watch(seconds(30));
  watch.OnAnswer();
  EXPECT_TRUE(LookOnce(watch));
  clock_.Advance(hours(1));  // Its host was suspended, for one.
  EXPECT_FALSE(watch.Look(clock_.Now()));
  EXPECT_EQ(watch.silence(), seconds(2));
  watch.OnAnswer();  // It was in the socket all the time.
  EXPECT_TRUE(LookOnce(watch));
}

TEST_F(AnswerWatchTest, ASilenceThatIsExcusedBeginsAnew) {
  AnswerWatch watch(seconds(30));
  watch.OnAnswer();
  LookFor(watch, seconds(40));
  EXPECT_TRUE(watch.out_of_patience());
  watch.Excuse();
  EXPECT_FALSE(watch.out_of_patience());
  LookFor(watch, seconds(30));
  EXPECT_TRUE(watch.out_of_patience());
}

TEST_F(AnswerWatchTest, AfterItsLastWordANodeMayBeSilent) {
  AnswerWatch watch(seconds(30));
  watch.OnAnswer();
  LookFor(watch, seconds(10));
  watch.OnLastWord();
  watch.OnAnswer();
  LookFor(watch, hours(1));
  EXPECT_FALSE(watch.out_of_patience());
  EXPECT_FALSE(LookOnce(watch));
}

TEST_F(AnswerWatchTest, AShortPatienceLooksOften) {
  EXPECT_EQ(AnswerWatch(seconds(30)).interval(), seconds(1));
  EXPECT_EQ(AnswerWatch(seconds(2)).interval(), milliseconds(100));
  EXPECT_EQ(AnswerWatch(milliseconds(1)).interval(), milliseconds(10));
}

}  // namespace
}  // namespace tfos::control
