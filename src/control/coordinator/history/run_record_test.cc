#include "control/coordinator/history/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tfos::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(HistoryQueryTest, HasDefaults) {
  const auto query = HistoryQuery::Parse("");
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->range, History::Range::kRecent);
  EXPECT_TRUE(query->nodes.empty());
  EXPECT_EQ(query->events_from, 0);
}

TEST(HistoryQueryTest, TakesAllItsParts) {
  const auto query = HistoryQuery::Parse("range=whole&nodes=0,17&events_from=5");
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->range, History::Range::kWhole);
  EXPECT_THAT(query->nodes, ElementsAre(0, 17));
  EXPECT_EQ(query->events_from, 5);
  EXPECT_TRUE(HistoryQuery::Parse("nodes=").ok());
}

TEST(HistoryQueryTest, RefusesAnythingElse) {
  std::string many = "nodes=0";
  for (std::size_t i = 0; i < History::kMostNodes; ++i) many += ",1";
  for (const std::string& query :
       {std::string("range=all"), std::string("range"), std::string("nodes=a"),
        std::string("nodes=-1"), std::string("nodes=1,,2"), std::string("nodes=99999999999"),
        std::string("events_from=-1"), std::string("events_from="), std::string("wait_ms=1"),
        std::string("&"), many}) {
    const auto parsed = HistoryQuery::Parse(query);
    ASSERT_FALSE(parsed.ok()) << query;
    EXPECT_EQ(parsed.status().kind(), ErrorKind::kBadInput);
    EXPECT_THAT(parsed.status().message(), HasSubstr("expected range=recent"));
  }
}

TEST(RunRecordTest, TellsHowTheRunHasGone) {
  ManualClock clock;
  RunRecord record("c\"1", 2, milliseconds(1000), clock.Now());
  NodeInfo node;
  node.node_id = 1;
  node.job_name = "worker";
  node.state = NodeState::kRunning;
  clock.Advance(milliseconds(1500));
  record.Take(CoordinatorEvent(NodeChanged{node}), clock.Now());
  record.Take(DriverMessage(Activity{.doing = "feeding", .items_read = 7, .unit = "rows"}),
              clock.Now());
  record.Take(DriverMessage(EndEpoch{.queue = "input", .epoch = 2}), clock.Now());
  record.Update(1, {{"loss", 0.5}});
  record.Sample(clock.Now());

  const json told = json::parse(record.Json({.nodes = {1}}, clock.Now()));
  EXPECT_EQ(told["cluster_id"], "c\"1");
  EXPECT_EQ(told["now_ms"], 1500);
  EXPECT_EQ(told["ask_again_ms"], 2000);
  EXPECT_EQ(told["range"], "recent");
  EXPECT_EQ(told["activity"]["doing"], "feeding");
  EXPECT_EQ(told["activity"]["items_read"], 7);
  EXPECT_EQ(told["activity"]["epochs_fed"]["input"], 3);
  EXPECT_EQ(told["events_count"], 2);
  EXPECT_EQ(told["events"][0]["text"], "worker:0 running");
  EXPECT_EQ(told["events"][1]["text"], "epoch 3 of the queue 'input' was fed");
  EXPECT_EQ(told["phases"], json::parse(R"({"-1":[[1500,"driver","feeding"]],
                                            "1":[[1500,"running",""]]})"));
  EXPECT_THAT(told["times"], ElementsAre(1500));
  EXPECT_THAT(told["series"]["loss"]["nodes"]["1"], ElementsAre(0.5));
}

TEST(RunRecordTest, SaysHowManyNodesHaveFormedTheCluster) {
  ManualClock clock;
  RunRecord record("c1", 2, milliseconds(1000), clock.Now());
  NodeInfo node;
  node.state = NodeState::kRegistered;
  record.Take(CoordinatorEvent(ClusterFormed{.nodes = {node}}), clock.Now());
  node.state = NodeState::kExpected;
  record.Take(CoordinatorEvent(ClusterFormed{.nodes = {node, node}}), clock.Now());
  const json told = json::parse(record.Json({}, clock.Now()));
  EXPECT_EQ(told["events"][0]["text"], "the cluster has formed: 1 node");
  EXPECT_EQ(told["events"][1]["text"], "the cluster has formed: 0 nodes");
}

TEST(RunRecordTest, ANodeThatHasEndedIsInNoMean) {
  for (const NodeState end :
       {NodeState::kDone, NodeState::kFailed, NodeState::kLost, NodeState::kStopped}) {
    ManualClock clock;
    RunRecord record("c", 2, milliseconds(1000), clock.Now());
    NodeInfo node;
    node.node_id = 1;
    for (const NodeState state : {NodeState::kRunning, NodeState::kDraining, end}) {
      node.state = state;
      record.Take(CoordinatorEvent(NodeChanged{node}), clock.Now());
      record.Update(0, {{"loss", 0.5}});
      record.Update(1, {{"loss", 4.5}});
      record.Sample(clock.Now());
      clock.Advance(milliseconds(1000));
    }
    record.Sample(clock.Now());
    const json told = json::parse(record.Json({}, clock.Now()));
    EXPECT_THAT(told["series"]["loss"]["mean"], ElementsAre(2.5, 2.5, 2.5, 0.5));
  }
}

TEST(RunRecordTest, PhasesSayWhatIsWrongWithANodeUntilItIsMeasuredAgain) {
  ManualClock clock;
  RunRecord record("c", 1, milliseconds(1000), clock.Now());
  NodeInfo node;
  node.node_id = 0;
  const auto measure = [&](const Metrics& metrics) {
    record.Measure({{&node, &metrics}}, clock.Now());
    clock.Advance(milliseconds(1000));
  };
  const auto become = [&](NodeState state, std::string detail = "") {
    node.state = state;
    node.detail = std::move(detail);
    record.Take(CoordinatorEvent(NodeChanged{node}), clock.Now());
  };
  become(NodeState::kStarting, "importing the program");
  measure({});
  become(NodeState::kRunning);
  measure({{"loss", std::string("nan")}});
  become(NodeState::kDraining, "no more rows");
  measure({{"loss", 0.5}});
  measure({{"seconds_without_answer", std::int64_t{3}}});
  become(NodeState::kFailed, "a long text");
  EXPECT_EQ(json::parse(record.Json({}, clock.Now()))["phases"]["0"],
            json::parse(R"([[0,"starting","importing the program"],[1000,"running",""],
                            [1000,"diverged",""],[2000,"draining","no more rows"],
                            [3000,"silent","no more rows"],[4000,"failed",""]])"));
}

TEST(RunRecordTest, ANodeThatMakesNoStepsAnyMoreIsOneEventAndAPhase) {
  ManualClock clock;
  RunRecord record("c", 1, milliseconds(1000), clock.Now());
  NodeInfo node;
  node.node_id = 0;
  node.job_name = "worker";
  node.state = NodeState::kRunning;
  for (const std::int64_t seconds : {0, 30, 31, 70, 0}) {
    Metrics metrics;
    if (seconds > 0) metrics["seconds_without_step"] = seconds;
    record.Measure({{&node, &metrics}}, clock.Now());
    clock.Advance(milliseconds(1000));
  }
  const json told = json::parse(record.Json({}, clock.Now()));
  EXPECT_EQ(told["phases"]["0"],
            json::parse(R"([[0,"running",""],[1000,"stuck",""],[4000,"running",""]])"));
  ASSERT_EQ(told["events"].size(), 2U);
  EXPECT_THAT(told["events"][0]["text"].get<std::string>(), EndsWith("no step for 30 s"));
  EXPECT_THAT(told["events"][1]["text"].get<std::string>(), EndsWith("goes on"));
}

TEST(RunRecordTest, WhatHappensToManyNodesAtOnceIsOneEvent) {
  ManualClock clock;
  constexpr int kNodes = 1000;
  RunRecord record("c", kNodes, milliseconds(1000), clock.Now());
  std::vector<NodeInfo> nodes(kNodes);
  std::vector<Metrics> metrics(kNodes);
  std::vector<NodeView> views;
  for (int i = 0; i < kNodes; ++i) {
    nodes[i].node_id = i;
    nodes[i].job_name = "worker";
    nodes[i].task_index = i;
    nodes[i].state = NodeState::kRunning;
    views.push_back({&nodes[i], &metrics[i]});
  }
  for (const char* trouble : {"seconds_without_step", "seconds_without_answer"}) {
    for (const std::int64_t seconds : {30, 0}) {
      for (Metrics& of_node : metrics) of_node[trouble] = seconds;
      // One that the others wait for.
      for (Metrics& of_node : metrics) of_node["share_waiting_for_nodes"] = 0.9;
      metrics[7]["share_waiting_for_nodes"] = 0.0;
      record.Measure(views, clock.Now());
      clock.Advance(milliseconds(1000));
    }
  }
  const json told = json::parse(record.Json({}, clock.Now()));
  std::vector<std::string> texts;
  for (const json& event : told["events"]) texts.push_back(event["text"]);
  EXPECT_THAT(texts, ElementsAre("no step on worker:7 for 0:30", "1000 nodes go on",
                                 "no sign of life on worker:0 and 999 others for 30 s",
                                 "signs of life again of 1000 nodes"));
}

TEST(RunRecordTest, OfManyNodesThePhasesAreThoseOfTheChosen) {
  ManualClock clock;
  constexpr int kNodes = static_cast<int>(History::kMostNodes) + 1;
  RunRecord record("c", kNodes, milliseconds(1000), clock.Now());
  NodeInfo node;
  for (node.node_id = 0; node.node_id < kNodes; ++node.node_id) {
    record.Take(CoordinatorEvent(NodeChanged{node}), clock.Now());
  }
  EXPECT_TRUE(json::parse(record.Json({}, clock.Now()))["phases"].empty());
  const json chosen = json::parse(record.Json({.nodes = {7}}, clock.Now()))["phases"];
  EXPECT_EQ(chosen.size(), 1U);
  EXPECT_TRUE(chosen.contains("7"));
}

TEST(RunRecordTest, ALossThatIsNoNumberIsAnEventOfItsNodeOnce) {
  ManualClock clock;
  RunRecord record("c", 2, milliseconds(1000), clock.Now());
  NodeInfo node;
  node.node_id = 1;
  node.job_name = "worker";
  node.task_index = 0;
  record.Take(CoordinatorEvent(NodeChanged{node}), clock.Now());
  Metrics metrics;
  const auto tell = [&](const MetricValue& loss) {
    metrics = {{"loss", loss}};
    record.Update(1, metrics);
    record.Sample(clock.Now());
    record.Measure({{&node, &metrics}}, clock.Now());
    clock.Advance(milliseconds(1000));
  };
  tell(0.5);
  tell(std::string("nan"));
  tell(std::string("nan"));
  json told = json::parse(record.Json({.nodes = {1}}, clock.Now()));
  ASSERT_EQ(told["events_count"], 2) << "the node's state, and its loss";
  EXPECT_EQ(told["events"][1]["text"], "worker:0: its loss is nan");
  EXPECT_EQ(told["events"][1]["node_id"], 1);
  EXPECT_EQ(told["diverged"], json({{"1", 1000}}));
  // The curve ends where the numbers end.
  EXPECT_THAT(told["series"]["loss"]["nodes"]["1"], ElementsAre(0.5, nullptr, nullptr));
  tell(0.25);
  tell(std::string("inf"));
  told = json::parse(record.Json({}, clock.Now()));
  EXPECT_EQ(told["events_count"], 3);
  EXPECT_EQ(told["events"][2]["text"], "worker:0: its loss is inf");
  EXPECT_EQ(told["diverged"], json({{"1", 4000}}));
}

TEST(RunRecordTest, AStopThatIsToldTwiceIsOneEvent) {
  ManualClock clock;
  RunRecord record("c", 1, milliseconds(1000), clock.Now());
  const auto stop = [&](const std::string& reason) {
    record.Take(DriverMessage(Stop{.reason = reason}), clock.Now());
  };
  stop("alice@host-a has stopped the cluster with `tfos stop`");
  stop("alice@host-a has stopped the cluster with `tfos stop`");
  const json told = json::parse(record.Json({}, clock.Now()));
  ASSERT_EQ(told["events_count"], 1);
  EXPECT_EQ(told["events"][0]["text"],
            "the driver stops all nodes: alice@host-a has stopped the cluster with `tfos stop`");
}

TEST(RunRecordTest, ANodeThatGivesNoSignOfLifeIsAnEventOnceAndSoIsItsReturn) {
  ManualClock clock;
  RunRecord record("c", 2, milliseconds(1000), clock.Now());
  NodeInfo node;
  node.node_id = 1;
  Metrics metrics;
  for (const std::int64_t seconds : {0, 3, 5, 0, 4}) {
    metrics = {{"seconds_without_answer", seconds}};
    record.Measure({{&node, &metrics}}, clock.Now());
    clock.Advance(milliseconds(1000));
  }
  node.state = NodeState::kLost;
  record.Measure({{&node, &metrics}}, clock.Now());
  const json told = json::parse(record.Json({}, clock.Now()));
  std::vector<std::string> texts;
  for (const json& event : told["events"]) texts.push_back(event["text"]);
  EXPECT_THAT(texts, ElementsAre("no sign of life", "signs of life again", "no sign of life"));
}

TEST(RunRecordTest, ProgressIsThatOfTheLatestCountsAndOfTheRatesOfTheLastSample) {
  ManualClock clock;
  RunRecord record("c", 1, milliseconds(1000), clock.Now());
  NodeInfo node;
  node.rank = 0;
  node.feed.emplace();
  Metrics metrics;
  const auto report = [&](std::int64_t steps) {
    metrics = {{"step", steps}, {"rows", 128 * steps}, {"feed_node_wait_seconds", 0.25 * steps}};
    record.Update(0, metrics);
  };
  for (const int steps : {10, 20, 30}) {
    clock.Advance(milliseconds(1000));
    report(steps);
    record.Sample(clock.Now());
    record.Measure({{&node, &metrics}}, clock.Now());
  }
  report(37);
  const RunProgress now = record.ProgressOf({{&node, &metrics}});
  EXPECT_EQ(now.step, 37);
  EXPECT_EQ(now.rows_per_second, 1280);
  EXPECT_EQ(record.progress().step, 30);
  NodeRates rates = record.Rates();
  EXPECT_EQ(rates["0"]["rows"], now.rows_per_second);
  EXPECT_EQ(rates["0"]["step"], now.steps_per_second);
  EXPECT_EQ(rates["0"]["feed_node_wait_seconds"], 2.5);
  const std::map<std::string, double> of_feed = {{"rows", *now.rows_per_second}};
  EXPECT_EQ(record.RatesOfFeed()["0"], of_feed) << "as the line has them";
}

TEST(RunRecordTest, ACopyEndsWithTheLatestValuesAndLeavesTheRecordAsItIs) {
  ManualClock clock;
  RunRecord record("c", 1, milliseconds(1000), clock.Now());
  record.Update(0, {{"loss", 0.5}});
  record.Sample(clock.Now());
  record.Update(0, {{"loss", 0.25}});
  clock.Advance(milliseconds(300));
  const auto losses = [&](const RunRecord& of) {
    return json::parse(of.Json({}, clock.Now()))["series"]["loss"]["mean"];
  };
  EXPECT_THAT(losses(record.SampledAt(clock.Now())), ElementsAre(0.25));
  EXPECT_THAT(losses(record), ElementsAre(0.5));
}

TEST(RunRecordTest, AFailureIsAnEvent) {
  ManualClock clock;
  RunRecord record("c", 1, milliseconds(1000), clock.Now());
  Failure failure;
  failure.node_id = 0;
  failure.job_name = "worker";
  failure.report.step = "run map_fun";
  failure.report.message = "ValueError: no";
  record.Take(CoordinatorEvent(ClusterFailed{failure}), clock.Now());
  const json told = json::parse(record.Json({}, clock.Now()));
  EXPECT_EQ(told["events"][0]["text"],
            "the cluster has failed: worker:0 failed to run map_fun: ValueError: no");
  EXPECT_EQ(told["events"][0]["node_id"], 0);
  failure.node_id = -1;
  record.Take(CoordinatorEvent(ClusterFailed{failure}), clock.Now());
  EXPECT_EQ(json::parse(record.Json({}, clock.Now()))["events"][1]["text"],
            "the cluster has failed: could not run map_fun: ValueError: no");
}

TEST(RunRecordTest, PagesOfManyNodesAskLessOften) {
  const auto ask_again = [](std::size_t nodes) {
    return RunRecord("c1", nodes, milliseconds(1000), Clock::TimePoint()).ask_again();
  };
  EXPECT_EQ(ask_again(200), milliseconds(2000));
  EXPECT_EQ(ask_again(300), milliseconds(3000));
  EXPECT_EQ(ask_again(1000), milliseconds(10'000));
  EXPECT_EQ(ask_again(4000), milliseconds(10'000));
}

}  // namespace
}  // namespace tfos::control
