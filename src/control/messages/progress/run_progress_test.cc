#include "control/messages/progress/run_progress.h"

#include <gtest/gtest.h>

namespace tfos::control {
namespace {

TEST(ProgressTextTest, SaysAllThatIsKnown) {
  RunProgress progress;
  progress.epoch = 2;
  progress.epochs = 5;
  progress.step = 12345;
  progress.done = 0.3799;
  progress.left_seconds = 83.4;
  progress.loss = 0.123456;
  progress.rows_per_second = 1234567.8;
  progress.steps_per_second = 9.6;
  progress.waits = "nodes";
  EXPECT_EQ(ProgressText(progress),
            "epoch 2 of 5, step 12,345, 37 %, 83 s left, loss 0.1235, 1,234,568 rows/s, "
            "nodes wait for rows");
  progress.epochs.reset();
  progress.rows_per_second.reset();
  progress.waits = "spark";
  progress.nodes = "1 of 2 nodes: importing TensorFlow";
  EXPECT_EQ(ProgressText(progress),
            "epoch 2, step 12,345, 37 %, 83 s left, loss 0.1235, 9.6 steps/s, "
            "Spark waits for nodes, 1 of 2 nodes: importing TensorFlow");
  progress = {};
  progress.step = 3;
  progress.silent = "no sign of life on worker:1 for 24 s";
  EXPECT_EQ(ProgressText(progress), "step 3, no sign of life on worker:1 for 24 s");
  progress.silent = "";
  progress.stuck = "no step on worker:1 for 1:10";
  EXPECT_EQ(ProgressText(progress), "step 3, no step on worker:1 for 1:10");
}

TEST(ProgressTextTest, OfNothingIsEmpty) { EXPECT_EQ(ProgressText({}), ""); }

TEST(ProgressTextTest, TimesHaveAUnitThatPeopleTakeIn) {
  const auto left = [](double seconds) {
    RunProgress progress;
    progress.left_seconds = seconds;
    return ProgressText(progress);
  };
  EXPECT_EQ(left(0), "0 s left");
  EXPECT_EQ(left(119), "119 s left");
  EXPECT_EQ(left(150), "2 min left");
  EXPECT_EQ(left(7140), "119 min left");
  EXPECT_EQ(left(7500), "2 h 5 min left");
  EXPECT_EQ(left(7199.9 + 3600), "3 h 0 min left");
  EXPECT_EQ(left(3600.0 * 1234), "1,234 h 0 min left");
}

TEST(ProgressTextTest, NumbersOfAnySizeAreShown) {
  RunProgress progress;
  progress.loss = 2e-5;
  progress.rows_per_second = 0.5;
  EXPECT_EQ(ProgressText(progress), "loss 2e-05, 0.5 rows/s");
  progress.bad_loss = "nan on worker:1";
  EXPECT_EQ(ProgressText(progress), "loss nan on worker:1, 0.5 rows/s");
  progress.bad_loss.clear();
  progress.loss = -1.5;
  progress.rows_per_second = 1e300;
  EXPECT_EQ(ProgressText(progress), "loss -1.5000, 1e+300 rows/s");
}

}  // namespace
}  // namespace tfos::control
