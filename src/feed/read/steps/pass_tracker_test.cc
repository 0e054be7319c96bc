#include "feed/read/steps/pass_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;

/// How many batches each of some passes gets, each of which takes at most `limits[i]`, from epochs
/// of so many batches.
std::vector<int> Passes(std::vector<int> epochs, const std::vector<int>& limits) {
  PassTracker tracker;
  std::vector<int> passes;
  std::size_t epoch = 0;
  for (const int limit : limits) {
    tracker.Begin();
    int taken = 0;
    while (taken < limit && epoch < epochs.size()) {
      if (epochs[epoch] == 0) {
        ++epoch;
        if (tracker.OnEndOfEpoch()) break;
      } else {
        --epochs[epoch];
        ++taken;
        tracker.OnBatch();
      }
    }
    passes.push_back(taken);
  }
  return passes;
}

constexpr int kAll = std::numeric_limits<int>::max();

TEST(PassTrackerTest, APassIsAnEpoch) {
  EXPECT_THAT(Passes({3, 5, 0, 2}, {kAll, kAll, kAll, kAll}), ElementsAre(3, 5, 0, 2));
}

TEST(PassTrackerTest, ALookAtTheFirstBatchesCostsNoEpoch) {
  EXPECT_THAT(Passes({5, 5}, {1, kAll, kAll}), ElementsAre(1, 4, 5));
  EXPECT_THAT(Passes({5, 5}, {5, 1, kAll, kAll}), ElementsAre(5, 1, 4, 0));
}

TEST(PassTrackerTest, PassesThatTakeExactlyTheirEpochsAreNotEmptyEveryOtherTime) {
  EXPECT_THAT(Passes({2, 2, 2}, {2, 2, 2}), ElementsAre(2, 2, 2));
}

TEST(PassTrackerTest, APassThatBeginsAndTakesNothingChangesNothing) {
  EXPECT_THAT(Passes({2, 2}, {2, 0, 2}), ElementsAre(2, 0, 2));
}

TEST(PassTrackerTest, ABatchThatAPassWasLeftWithoutIsOneOfTheNextPass) {
  PassTracker tracker;
  tracker.Begin();
  tracker.OnBatch();
  ASSERT_TRUE(tracker.OnEndOfEpoch());
  // The whole epoch is made, and the pass is left before it has got the batch.
  tracker.Begin();
  tracker.OnBatch();
  tracker.OnBatchLeft();
  tracker.Begin();
  tracker.OnBatch();
  EXPECT_TRUE(tracker.OnEndOfEpoch());
}

// As Keras has it: the first pass tells the number of batches, one too high.
TEST(PassTrackerTest, LimitsThatAreTooLowForAnEpochDoNotShiftTheOthers) {
  EXPECT_THAT(Passes({7, 9, 9, 5, 8}, {kAll, 8, 8, 8, 8}), ElementsAre(7, 8, 8, 7, 8));
}

}  // namespace
}  // namespace tfos::feed
