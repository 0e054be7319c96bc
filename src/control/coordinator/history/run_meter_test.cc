#include "control/coordinator/history/run_meter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tfos::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Two nodes that train and one that serves them, with a clock that the test moves.
class RunMeterTest : public testing::Test {
 protected:
  RunMeterTest() : nodes_(3), metrics_(3), before_(3), history_(3, milliseconds(1000)) {
    for (int id = 0; id < 3; ++id) {
      NodeInfo& node = nodes_[static_cast<std::size_t>(id)];
      node.node_id = id;
      node.rank = id - 1;  // The first does not train.
      node.state = NodeState::kRunning;
      if (id > 0) node.feed.emplace();
    }
    activity_.doing = "feeding";
  }

  RunProgress Look(seconds after = seconds(1)) {
    now_ += after;
    std::vector<NodeView> views;
    for (std::size_t id = 0; id < nodes_.size(); ++id) {
      history_.Update(static_cast<int>(id), metrics_[id]);
      views.push_back({.info = &nodes_[id],
                       .metrics = &metrics_[id],
                       .before = &before_[id],
                       .came_late = came_late_.contains(id)});
    }
    history_.Sample(now_);
    return meter_.Measure(views, history_, activity_, now_);
  }

  std::vector<NodeInfo> nodes_;
  std::vector<Metrics> metrics_;
  std::vector<Metrics> before_;  // of lost nodes that each came in place of
  std::set<std::size_t> came_late_;
  Activity activity_;

 private:
  History history_;
  RunMeter meter_;
  milliseconds now_{0};
};

TEST_F(RunMeterTest, BeforeAnythingIsReportedNothingIsKnown) { EXPECT_EQ(Look().text, ""); }

TEST_F(RunMeterTest, TheOneThatIsBehindSaysHowFarAllAre) {
  metrics_[1] = {{"epoch", std::int64_t{2}},
                 {"epochs", std::int64_t{5}},
                 {"step", std::int64_t{30}},
                 {"progress", 0.3},
                 {"loss", 0.5},
                 {"rows", std::int64_t{0}}};
  metrics_[2] = {{"epoch", std::int64_t{3}},
                 {"epochs", std::int64_t{5}},
                 {"step", std::int64_t{41}},
                 {"progress", 0.41},
                 {"loss", 0.25},
                 {"rows", std::int64_t{0}}};
  metrics_[0] = {{"epoch", std::int64_t{1}}, {"step", std::int64_t{1}}};
  EXPECT_EQ(Look().text, "epoch 2 of 5, step 30, 30 %, loss 0.3750");
  for (int second = 1; second <= 12; ++second) {
    for (const std::size_t id : {1U, 2U}) {
      metrics_[id]["rows"] = std::int64_t{500 * second};
      metrics_[id]["step"] = std::int64_t{100 + second};
      metrics_[id]["progress"] = 0.3 + 0.01 * second;
    }
    Look();
  }
  const RunProgress progress = Look(seconds(0));
  ASSERT_TRUE(progress.left_seconds.has_value());
  EXPECT_NEAR(*progress.left_seconds, 58, 1);
  for (const char* const wrong : {"seconds_without_answer", "seconds_without_step"}) {
    metrics_[1][wrong] = std::int64_t{70};
    EXPECT_FALSE(Look(seconds(0)).left_seconds.has_value()) << wrong;
    metrics_[1].erase(wrong);
  }
  metrics_[1]["loss"] = std::string("nan");
  EXPECT_FALSE(Look(seconds(0)).left_seconds.has_value()) << "what is left is worth nothing";
  metrics_[1].erase("loss");
  EXPECT_NEAR(progress.rows_per_second.value(), 1000, 1);
  EXPECT_NEAR(progress.steps_per_second.value(), 1, 0.01);
}

TEST_F(RunMeterTest, WithoutAWordOfTheProgramTheDriversCountsSayIt) {
  activity_.epoch = 2;
  activity_.epochs = 4;
  metrics_[1] = {{"items_delivered", std::int64_t{150}}, {"items_unread", std::int64_t{50}}};
  metrics_[2] = {{"items_delivered", std::int64_t{100}}, {"items_replayed", std::int64_t{100}}};
  EXPECT_EQ(Look().text, "epoch 2 of 4") << "nobody knows how much an epoch is";
  activity_.epoch_fed = 0.5;
  EXPECT_EQ(Look().text, "epoch 2 of 4, 35 %")
      << "of the half that Spark has fed, 300 of 350 items";
  activity_.items_before = 100;
  activity_.items_planned = 400;
  EXPECT_EQ(Look().text, "epoch 2 of 4, 50 %");
  // What the program says comes first.
  metrics_[1]["progress"] = 0.75;
  metrics_[1]["epoch"] = std::int64_t{7};
  EXPECT_EQ(Look().text, "epoch 7, 75 %");
}

TEST_F(RunMeterTest, SparkMayFeedEpochsAheadOfTheProgram) {
  activity_.epoch = 4;
  activity_.epochs = 5;
  activity_.items_planned = 1000;
  metrics_[1] = metrics_[2] = {{"items_delivered", std::int64_t{0}}};
  EXPECT_EQ(Look().text, "epoch 1 of 5, 0 %");
  metrics_[1] = {{"items_delivered", std::int64_t{250}}};
  EXPECT_EQ(Look().text, "epoch 2 of 5, 25 %");
}

TEST_F(RunMeterTest, WhatAnEarlierClusterHasTrainedIsDone) {
  activity_.epoch = 3;
  activity_.epochs = 4;
  activity_.epochs_before = 2;
  EXPECT_EQ(Look().text, "epoch 3 of 4, 50 %");
  activity_.epoch_fed = 0.5;
  metrics_[1] = {{"items_delivered", std::int64_t{0}}};
  EXPECT_EQ(Look().text, "epoch 3 of 4, 50 %");
  activity_.epoch = 4;
  activity_.items_planned = 200;
  EXPECT_EQ(Look().text, "epoch 3 of 4, 50 %") << "Spark feeds ahead";
  metrics_[1] = {{"items_delivered", std::int64_t{150}}};
  EXPECT_EQ(Look().text, "epoch 4 of 4, 87 %");
  activity_.epochs_before = 4;
  EXPECT_EQ(Look().done, 0.75) << "nothing that a driver says divides by zero";
}

TEST_F(RunMeterTest, TheShareDoesNotFallOnceTheItemsOfAnEpochAreKnown) {
  activity_.epoch = 1;
  activity_.epochs = 4;
  activity_.epoch_fed = 0.5;
  activity_.items_before = 100;
  metrics_[1] = {{"items_delivered", std::int64_t{500}}, {"items_unread", std::int64_t{300}}};
  metrics_[2] = {{"items_delivered", std::int64_t{100}}, {"items_unread", std::int64_t{50}}};
  EXPECT_EQ(Look().text, "epoch 1 of 4, 3 %") << "of 500 items that were fed, 150 were begun";
  activity_.epoch_fed = 1;
  metrics_[1]["items_delivered"] = std::int64_t{1000};
  EXPECT_DOUBLE_EQ(Look().done.value(), 650.0 / 4000);
  activity_.epoch = 2;
  activity_.items_planned = 4000;
  EXPECT_DOUBLE_EQ(Look().done.value(), 650.0 / 4000);
}

TEST_F(RunMeterTest, AnotherSourceOfTheShareIsNoSpeed) {
  activity_.epoch = 1;
  activity_.epochs = 3;
  metrics_[1] = metrics_[2] = {{"progress", std::string("unknown")}};
  metrics_[1]["items_delivered"] = std::int64_t{1};
  for (int second = 1; second <= 20; ++second) {
    activity_.epoch_fed = 0.005 * second;
    Look();
  }
  EXPECT_NEAR(Look(seconds(0)).left_seconds.value(), 580, 1);
  // The items are counted otherwise than Spark's tasks.
  activity_.items_planned = 1000;
  const auto grow_items = [&](int times) {
    for (int second = 0; second <= times; ++second) {
      metrics_[1]["items_delivered"] = std::int64_t{300 + second};
      Look();
    }
  };
  grow_items(4);
  EXPECT_FALSE(Look(seconds(0)).left_seconds.has_value()) << "too early to say";
  grow_items(20);
  EXPECT_NEAR(Look(seconds(0)).left_seconds.value(), 680, 1);
  // A fit that was resumed has had epochs that the driver has not fed.
  for (int second = 0; second <= 12; ++second) {
    metrics_[1]["progress"] = metrics_[2]["progress"] = 0.7 + 0.001 * second;
    const RunProgress progress = Look();
    EXPECT_GT(progress.left_seconds.value_or(288), 280);
  }
  EXPECT_NEAR(Look(seconds(0)).left_seconds.value(), 288, 1);
}

TEST_F(RunMeterTest, SaysWhatNodesDoThatDoNotTrain) {
  nodes_[1].detail = nodes_[2].detail = "importing TensorFlow";
  nodes_[0].detail = "serving";
  EXPECT_EQ(Look().text, "importing TensorFlow");
  nodes_[1].detail = "";
  metrics_[1] = {{"step", std::int64_t{5}}};
  EXPECT_EQ(Look().text, "step 5, 1 of 2 nodes: importing TensorFlow");
  nodes_[2].state = NodeState::kDraining;
  EXPECT_EQ(Look().text, "step 5, 0.0 steps/s, 1 of 2 nodes: importing TensorFlow");
  nodes_[2].detail = "all its rows are there";
  EXPECT_EQ(Look().text, "step 5, 0.0 steps/s");
  nodes_[2].detail = "stopping: somebody asked for it";
  EXPECT_EQ(Look().text, "step 5, 0.0 steps/s");
}

TEST_F(RunMeterTest, NamesANodeThatDoesNotAnswer) {
  nodes_[2].job_name = "worker";
  nodes_[2].task_index = 1;
  metrics_[2] = {{"step", std::int64_t{5}}, {"seconds_without_answer", std::int64_t{24}}};
  EXPECT_EQ(Look().text, "step 5, no sign of life on worker:1 for 24 s");
  nodes_[2].state = NodeState::kLost;
  EXPECT_EQ(Look().silent, "");
}

TEST_F(RunMeterTest, NamesTheSideThatWaitsMostOfTheTimeWhileRowsAreFed) {
  const auto waits = [&](const char* side, double of_each_second) {
    for (const char* name : {"feed_node_wait_seconds", "feed_feeder_wait_seconds"}) {
      for (const std::size_t id : {1U, 2U}) metrics_[id][name] = 0.0;
    }
    Look(seconds(100));
    for (const std::size_t id : {1U, 2U}) metrics_[id][side] = of_each_second * 10;
    return Look(seconds(10)).waits;
  };
  EXPECT_EQ(waits("feed_node_wait_seconds", 0.9), "nodes");
  EXPECT_EQ(waits("feed_feeder_wait_seconds", 0.6), "spark");
  EXPECT_EQ(waits("feed_node_wait_seconds", 0.3), "");
  metrics_[2]["seconds_without_answer"] = std::int64_t{4};
  EXPECT_EQ(waits("feed_node_wait_seconds", 0.9), "");
  metrics_[2]["seconds_without_answer"] = std::int64_t{0};
  activity_.doing = "between feeds";
  EXPECT_EQ(waits("feed_node_wait_seconds", 0.9), "");
  metrics_[1]["feed_sessions"] = std::int64_t{1};
  EXPECT_EQ(waits("feed_node_wait_seconds", 0.9), "nodes") << "an inference";
  EXPECT_EQ(waits("feed_feeder_wait_seconds", 0.6), "spark");
  metrics_[1]["feed_sessions"] = std::int64_t{0};
  EXPECT_EQ(waits("feed_node_wait_seconds", 0.9), "");
}

TEST_F(RunMeterTest, TheEndIsThatOfTheNodesThatCameToIt) {
  metrics_[1] = {{"progress", 1.0}, {"step", std::int64_t{9}}};
  metrics_[2] = {{"progress", 0.2}, {"step", std::int64_t{2}}};
  nodes_[1].state = NodeState::kDone;
  nodes_[2].state = NodeState::kLost;
  EXPECT_EQ(Look().text, "step 9, 100 %");
}

TEST_F(RunMeterTest, NothingFallsWhenANodeComesInPlaceOfALostOne) {
  activity_.epoch = 1;
  activity_.epochs = 2;
  activity_.items_planned = 200;
  metrics_[1] = {{"items_delivered", std::int64_t{60}}, {"step", std::int64_t{30}}};
  metrics_[2] = {{"items_delivered", std::int64_t{40}}, {"items_unread", std::int64_t{10}}};
  EXPECT_EQ(Look().text, "epoch 1 of 2, step 30, 45 %");
  before_[2] = std::exchange(metrics_[2], {});
  came_late_ = {2};
  EXPECT_EQ(Look().text, "epoch 1 of 2, step 30, 45 %, 0.0 steps/s");
  // It passes over what the others have trained on.
  metrics_[2] = {{"step", std::int64_t{20}},
                 {"epoch", std::int64_t{1}},
                 {"epochs", std::int64_t{2}},
                 {"progress", 0.1}};
  EXPECT_EQ(Look(seconds(0)).text, "epoch 1 of 2, step 30, 45 %, 0.0 steps/s");
  metrics_[1]["epoch"] = metrics_[1]["epochs"] = std::int64_t{2};
  metrics_[1]["progress"] = 0.5;
  EXPECT_EQ(Look(seconds(0)).text, "epoch 2 of 2, step 30, 50 %, 0.0 steps/s");
  nodes_[1].state = NodeState::kDone;
  EXPECT_EQ(Look(seconds(0)).step, 20) << "no other node is left";
}

TEST_F(RunMeterTest, ALossThatIsNoNumberHidesBehindNoMean) {
  nodes_[1].job_name = nodes_[2].job_name = "worker";
  nodes_[2].task_index = 1;
  metrics_[1] = {{"loss", 0.5}};
  metrics_[2] = {{"loss", std::string("nan")}};
  EXPECT_EQ(Look().text, "loss nan on worker:1");
  EXPECT_FALSE(Look().loss.has_value());
  metrics_[1] = {{"loss", std::string("-inf")}};
  EXPECT_EQ(Look().text, "loss -inf on 2 of 2 nodes");
  metrics_[1] = metrics_[2] = {{"loss", 0.5}};
  EXPECT_EQ(Look().text, "loss 0.5000");
}

TEST_F(RunMeterTest, WhatIsNoNumberCountsNothing) {
  metrics_[1] = {{"progress", std::string("half")},
                 {"epoch", 1e300},
                 {"loss", std::numeric_limits<double>::infinity()},
                 {"step", -1e300}};
  metrics_[2] = {{"progress", 1e9}};
  EXPECT_EQ(Look().text, "100 %");
  metrics_[2] = {{"progress", -5.0}};
  EXPECT_EQ(Look().text, "0 %");
}

}  // namespace
}  // namespace tfos::control
