#include "control/messages/progress/silence.h"

#include <gtest/gtest.h>

#include <limits>

namespace tfos::control {
namespace {

NodeInfo Worker(int index) {
  NodeInfo node;
  node.job_name = "worker";
  node.task_index = index;
  node.state = NodeState::kRunning;
  return node;
}

Metrics Silent(MetricValue seconds) { return {{"seconds_without_answer", std::move(seconds)}}; }

TEST(SilenceTest, IsPartOfWhatANodeDoes) {
  NodeInfo node = Worker(1);
  EXPECT_EQ(DoingWithSilence(node, Silent(std::int64_t{24})), "no sign of life for 24 s");
  node.detail = "first step (tracing)";
  EXPECT_EQ(DoingWithSilence(node, Silent(std::int64_t{24})),
            "no sign of life for 24 s; first step (tracing)");
  EXPECT_EQ(DoingWithSilence(node, Silent(std::int64_t{0})), "first step (tracing)");
  EXPECT_EQ(DoingWithSilence(node, {}), "first step (tracing)");
  node.state = NodeState::kLost;
  EXPECT_EQ(DoingWithSilence(node, Silent(29.0)), "first step (tracing)");
}

TEST(SilenceTest, ANodeSaysThatItWaitsForTheFirstOfItsRows) {
  NodeInfo node = Worker(1);
  node.feed.emplace();
  node.detail = "first step (tracing)";
  const auto metrics = [](std::int64_t chunks, double waited) {
    return Metrics{{"feed_chunks", chunks}, {"feed_node_wait_seconds", waited}};
  };
  EXPECT_EQ(DoingOf(node, metrics(0, 2.5)), "waiting for the first rows");
  EXPECT_EQ(DoingOf(node, metrics(0, 0.5)), "first step (tracing)") << "they may come at once";
  EXPECT_EQ(DoingOf(node, metrics(1, 2.5)), "first step (tracing)");
  EXPECT_EQ(DoingOf(node, {}), "first step (tracing)");
  node.state = NodeState::kDone;
  EXPECT_EQ(DoingOf(node, metrics(0, 2.5)), "first step (tracing)");
}

TEST(SilenceTest, WhatIsNoNumberIsNone) {
  EXPECT_EQ(SecondsSilent(Worker(0), Silent(std::string("long"))), 0);
  EXPECT_EQ(SecondsSilent(Worker(0), Silent(std::numeric_limits<double>::infinity())), 0);
  EXPECT_EQ(SecondsSilent(Worker(0), Silent(-3.0)), 0);
}

TEST(SilenceTest, ANodeWhoseProgramHasReadNoRowSaysSo) {
  NodeInfo node = Worker(1);
  node.feed.emplace();
  EXPECT_EQ(DoingOf(node, {}), "") << "it has not told";
  EXPECT_EQ(DoingOf(node, {{"rows", std::int64_t{0}}}), "no row read yet");
  EXPECT_EQ(DoingOf(node, {{"rows", std::int64_t{1}}}), "");
  EXPECT_EQ(DoingOf(node, {{"rows", std::int64_t{0}}, {"step", std::int64_t{1}}}), "");
  node.detail = "importing TensorFlow";
  EXPECT_EQ(DoingOf(node, {{"rows", std::int64_t{0}}}), "importing TensorFlow");
}

TEST(SilenceTest, ANodeThatMakesNoStepsSaysSo) {
  NodeInfo node = Worker(1);
  const auto metrics = [](std::int64_t seconds) {
    return Metrics{{"seconds_without_step", seconds}};
  };
  EXPECT_EQ(DoingWithSilence(node, metrics(70)), "no step for 1:10");
  EXPECT_EQ(DoingWithSilence(node, metrics(7205)), "no step for 2:00:05");
  node.detail = "all its rows are there";
  EXPECT_EQ(DoingWithSilence(node, metrics(70)), "no step for 1:10; all its rows are there");
  Metrics held_up = metrics(70);
  held_up["share_waiting_for_nodes"] = 0.9;
  EXPECT_EQ(DoingWithSilence(node, held_up),
            "no step for 1:10, waits for other nodes; all its rows are there");
  node.state = NodeState::kDone;
  EXPECT_EQ(SecondsWithoutStep(node, metrics(70)), 0);
}

TEST(SilenceTest, NamesTheNodeThatHoldsUpTheOthers) {
  const NodeInfo a = Worker(0);
  const NodeInfo b = Worker(1);
  const Metrics none;
  const Metrics stopped = {{"seconds_without_step", std::int64_t{70}}};
  const Metrics held_up = {{"seconds_without_step", std::int64_t{71}},
                           {"share_waiting_for_nodes", 0.9}};
  EXPECT_EQ(StuckAmong({{&a, &none}}), "");
  EXPECT_EQ(StuckAmong({{&a, &held_up}, {&b, &stopped}}), "no step on worker:1 for 1:10");
  EXPECT_EQ(StuckAmong({{&a, &held_up}, {&b, &none}}), "no step on worker:0 for 1:11");
  EXPECT_EQ(StuckAmong({{&a, &stopped}, {&b, &stopped}}),
            "no step on worker:0 and 1 other for 1:10");
}

TEST(SilenceTest, NamesTheNodeThatIsSilentForLongest) {
  const NodeInfo a = Worker(0);
  const NodeInfo b = Worker(1);
  const NodeInfo c = Worker(2);
  const Metrics none;
  const Metrics short_time = Silent(std::int64_t{3});
  const Metrics long_time = Silent(std::int64_t{24});
  EXPECT_EQ(SilenceAmong({{&a, &none}}), "");
  EXPECT_EQ(SilenceAmong({{&a, &none}, {&b, &long_time}}), "no sign of life on worker:1 for 24 s");
  EXPECT_EQ(SilenceAmong({{&a, &short_time}, {&b, &long_time}}),
            "no sign of life on worker:1 and 1 other for 24 s");
  EXPECT_EQ(SilenceAmong({{&a, &short_time}, {&b, &long_time}, {&c, &long_time}}),
            "no sign of life on worker:1 and 2 others for 24 s");
}

}  // namespace
}  // namespace tfos::control
