// What a node may become, its role, and how a cluster forms, goes on and ends as planned.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "control/coordinator/roster/node_words.h"
#include "control/coordinator/roster/offices/latest_metrics.h"
#include "control/coordinator/roster/roster_fixture.h"

namespace tfos::control {
namespace {

using std::chrono::milliseconds;

TEST(TransitionTest, TableIsTheOneOfTheProtocol) {
  const std::vector<std::pair<NodeState, std::vector<NodeState>>> allowed = {
      {kExpected, {kRegistered, kLost}},
      {kStarting, {}},
      {kRegistered, {kRunning, kDraining, kDone, kFailed, kLost, kStopped}},
      {kRunning, {kDraining, kDone, kFailed, kLost, kStopped}},
      {kDraining, {kDone, kFailed, kLost, kStopped}},
      {kDone, {}},
      {kFailed, {}},
      {kLost, {kRegistered}},
      {kStopped, {}},
  };
  ASSERT_EQ(allowed.size(), kNodeStates);
  for (const auto& [from, targets] : allowed) {
    for (std::size_t i = 0; i < kNodeStates; ++i) {
      const auto to = static_cast<NodeState>(i);
      const bool expected = std::find(targets.begin(), targets.end(), to) != targets.end();
      EXPECT_EQ(MayBecome(from, to), expected)
          << NodeStateName(from) << " -> " << NodeStateName(to);
    }
  }
}

TEST(RolesTest, IdsRunThroughTheRolesInOrder) {
  const std::vector<RoleCount> counts = {
      {.job = "ps", .count = 1}, {.job = "chief", .count = 1}, {.job = "worker", .count = 2}};
  const std::vector<std::string> services = {"ps", "evaluator"};
  const auto roles = AssignRoles(counts, services);
  ASSERT_TRUE(roles.ok());
  std::vector<std::string> names;
  for (const Role& role : *roles) {
    names.push_back(role.job_name + ":" + std::to_string(role.task_index) +
                    (role.service ? " service" : ""));
  }
  EXPECT_THAT(names, ElementsAre("ps:0 service", "chief:0", "worker:0", "worker:1"));
}

TEST(RolesTest, RefusesWhatIsNoCluster) {
  const std::vector<std::string> none;
  EXPECT_FALSE(AssignRoles(std::vector<RoleCount>{}, none).ok());
  EXPECT_FALSE(AssignRoles(std::vector<RoleCount>{{.job = "", .count = 1}}, none).ok());
  EXPECT_FALSE(
      AssignRoles(std::vector<RoleCount>{{.job = "a", .count = 99'999}, {.job = "b", .count = 2}},
                  none)
          .ok());
}

TEST_F(RosterTest, FormsOnceAllNodesAreThere) {
  EXPECT_THAT(Words(RegisterNode(2)), ElementsAre("driver node 2 registered"));
  EXPECT_THAT(Words(RegisterNode(0)), ElementsAre("driver node 0 registered"));
  EXPECT_THAT(Words(RegisterNode(1)),
              ElementsAre("driver node 1 registered", "publish", "driver formed"));

  const StartNode shared = roster_.SharedStart(clock_.Now());
  EXPECT_THAT(shared.cluster_spec.at("ps"), ElementsAre("10.0.0.10:2222"));
  EXPECT_THAT(shared.cluster_spec.at("worker"), ElementsAre("10.0.0.11:2222", "10.0.0.12:2222"));
  EXPECT_EQ(shared.num_workers, 2);
  EXPECT_EQ(roster_.Start(2).job_name, "worker");
  EXPECT_EQ(roster_.Start(2).task_index, 1);
  EXPECT_FALSE(roster_.Start(2).tensorboard);
  EXPECT_TRUE(roster_.Start(1).tensorboard);
}

TEST_F(RosterTest, IPv6AddressesAreBracketed) {
  Register message = Registration(0);
  message.address = "fd00::1";
  ASSERT_TRUE(roster_.Register(message, clock_.Now()).ok());
  EXPECT_THAT(roster_.SharedStart(clock_.Now()).cluster_spec.at("ps"),
              ElementsAre("[fd00::1]:2222"));
}

TEST_F(RosterTest, RefusesRegistrationsThatMakeNoSense) {
  RegisterNode(1);
  const auto refusal = [this](Register message) {
    auto result = roster_.Register(message, clock_.Now());
    return result.ok() ? std::string("taken") : result.status().ToString();
  };
  EXPECT_THAT(refusal(Registration(1)), HasSubstr("worker:0 (node 1 on h1) has registered before"));
  EXPECT_THAT(refusal(Registration(3)), HasSubstr("there is no node 3"));
  Register other_version = Registration(2);
  other_version.protocol = 2;
  EXPECT_THAT(refusal(other_version), HasSubstr("control protocol 2"));
  roster_.StopAll({.reason = "no longer wanted", .grace = seconds(1)}, clock_.Now());
  EXPECT_THAT(refusal(Registration(2)), HasSubstr("no longer wanted"));
}

TEST_F(RosterTest, FinishedOnlyOnceEveryAgentHasNothingLeft) {
  RunAll();
  roster_.Fail(2, Report("x"), clock_.Now());
  roster_.Finish(0, clock_.Now());
  roster_.Finish(1, clock_.Now());
  EXPECT_FALSE(roster_.finished());
  EXPECT_THAT(roster_.Finish(2, clock_.Now()), IsEmpty());
  roster_.ConnectionLost(0, clock_.Now());
  roster_.ConnectionLost(1, clock_.Now());
  EXPECT_THAT(Words(roster_.ConnectionLost(2, clock_.Now())), ElementsAre("driver finished"));
  EXPECT_EQ(StateOf(2), kFailed);
  EXPECT_EQ(StateOf(1), kStopped);
}

TEST_F(RosterTest, AnAgentWhoseNodeIsDoneIsStillToldToStop) {
  RunAll();
  roster_.Finish(1, clock_.Now());
  EXPECT_THAT(Words(roster_.StopAll({.reason = "shut down", .grace = seconds(1)}, clock_.Now())),
              testing::Contains("agent 1 stop"));
  EXPECT_EQ(StateOf(1), kDone);
}

TEST_F(RosterTest, StoppingIsNoFailure) {
  RunAll();
  EXPECT_THAT(Words(roster_.StopAll({.reason = "shut down", .grace = seconds(1)}, clock_.Now())),
              ElementsAre("agent 0 stop", "driver node 0 draining", "agent 1 stop",
                          "driver node 1 draining", "agent 2 stop", "driver node 2 draining"));
  roster_.Finish(0, clock_.Now());
  roster_.ConnectionLost(1, clock_.Now());
  EXPECT_THAT(Words(roster_.Finish(2, clock_.Now())), ElementsAre("driver node 2 stopped"));
  EXPECT_EQ(roster_.Nodes(clock_.Now())[2].detail, "shut down");
  roster_.ConnectionLost(0, clock_.Now());
  EXPECT_THAT(Words(roster_.ConnectionLost(2, clock_.Now())), ElementsAre("driver finished"));
  EXPECT_EQ(StateOf(0), kDone) << "it serves the others until it is stopped";
  EXPECT_EQ(StateOf(1), kStopped);
  EXPECT_FALSE(roster_.failure().has_value());
}

TEST_F(RosterTest, StoppingBeforeAnyoneCameFinishesAtOnce) {
  EXPECT_THAT(Words(roster_.StopAll({.reason = "never mind", .grace = seconds(1)}, clock_.Now())),
              ElementsAre("driver node 0 lost", "driver node 1 lost", "driver node 2 lost",
                          "driver finished"));
}

TEST_F(RosterTest, EndOfFeedReachesFedNodesOnlyAndWaitsForTheStart) {
  RegisterNode(0);
  RegisterNode(1);
  EXPECT_THAT(roster_.EndFeed({}, clock_.Now()), IsEmpty());
  EXPECT_THAT(Words(RegisterNode(2)),
              ElementsAre("driver node 2 registered", "publish", "driver formed",
                          "agent 1 end_feed", "agent 2 end_feed"));
  EXPECT_THAT(Words(roster_.SetState(1, State(kRunning), clock_.Now())),
              ElementsAre("driver node 1 running", "driver node 1 draining"));
  EXPECT_THAT(Words(roster_.SetState(0, State(kRunning), clock_.Now())),
              ElementsAre("driver node 0 running"));
}

TEST_F(RosterTest, AFeedThatHasEndedCanEndAtOnceAfterwardsAndNotTheOtherWayRound) {
  RunAll();
  const auto at_once = [](const Effects& effects) {
    std::vector<bool> told;
    for (const Effect& effect : effects) {
      const auto* agent = std::get_if<TellAgent>(&effect);
      if (agent == nullptr) continue;
      told.push_back(std::get<control::EndFeed>(agent->command).at_once);
    }
    return told;
  };
  EXPECT_THAT(at_once(roster_.EndFeed({}, clock_.Now())), ElementsAre(false, false));
  EXPECT_THAT(Words(roster_.EndFeed({}, clock_.Now())), IsEmpty());
  EXPECT_EQ(roster_.Snapshot(clock_.Now()).nodes[1].detail, "all its rows are there");
  EXPECT_THAT(at_once(roster_.EndFeed({.at_once = true}, clock_.Now())), ElementsAre(true, true));
  EXPECT_EQ(roster_.Snapshot(clock_.Now()).nodes[1].detail, "stopping: no more rows will come");
  EXPECT_THAT(Words(roster_.EndFeed({}, clock_.Now())), IsEmpty());
  EXPECT_THAT(Words(roster_.EndFeed({.at_once = true}, clock_.Now())), IsEmpty());
}

TEST_F(RosterTest, TheEndOfAnEpochReachesFedNodesOnly) {
  RunAll();
  EXPECT_THAT(Words(roster_.EndEpoch({.queue = "input", .epoch = 2}, clock_.Now())),
              ElementsAre("agent 1 end_epoch", "agent 2 end_epoch"));
  EXPECT_THAT(Words(roster_.AbandonEpoch({.queue = "input", .epoch = 3, .job = "00"})),
              ElementsAre("agent 1 abandon_epoch", "agent 2 abandon_epoch"));
  EXPECT_THAT(Words(roster_.EndJob({.job = "00"})),
              ElementsAre("agent 1 end_job", "agent 2 end_job"));
}

TEST_F(RosterTest, AStateReportThatComesTooLateStillBringsItsNews) {
  Form();
  roster_.SetState(1, State(kRunning), clock_.Now());
  roster_.EndFeed({}, clock_.Now());
  StateReport late = State(kRunning, "epoch 3");
  late.pid = 77;
  late.feed = FeedEndpoint{.socket = "s", .port = 9};
  EXPECT_THAT(Words(roster_.SetState(1, late, clock_.Now())),
              ElementsAre("driver node 1 draining"));
  const NodeInfo node = roster_.Nodes(clock_.Now())[1];
  EXPECT_EQ(node.pid, 77);
  EXPECT_EQ(node.feed->port, 9);
  EXPECT_EQ(node.detail, "epoch 3");
  roster_.SetState(1, State(kRunning), clock_.Now());
  EXPECT_EQ(roster_.Nodes(clock_.Now())[1].detail, "all its rows are there");
}

TEST_F(RosterTest, TensorBoardIsKnownAsLongAsItListens) {
  RunAll();
  StateReport report = State(kRunning);
  report.tensorboard = TensorBoardProcess{.pid = 8, .port = 6006};
  roster_.SetState(1, report, clock_.Now());
  EXPECT_EQ(roster_.Nodes(clock_.Now())[1].tensorboard->port, 6006);
  roster_.SetState(1, State(kRunning), clock_.Now());
  EXPECT_FALSE(roster_.Nodes(clock_.Now())[1].tensorboard.has_value());
}

TEST_F(RosterTest, TensorBoardMayListenAfterTheEndOfItsNodesProgram) {
  RunAll();
  roster_.Finish(1, clock_.Now());
  StateReport report = State(kDone);
  report.tensorboard = TensorBoardProcess{.pid = 8, .port = 6006};
  EXPECT_THAT(Words(roster_.SetState(1, report, clock_.Now())), ElementsAre("driver node 1 done"));
  EXPECT_EQ(roster_.Nodes(clock_.Now())[1].tensorboard->port, 6006);
  EXPECT_THAT(roster_.SetState(1, report, clock_.Now()), IsEmpty());
  roster_.SetState(1, State(kDone), clock_.Now());
  EXPECT_FALSE(roster_.Nodes(clock_.Now())[1].tensorboard.has_value());
}

TEST_F(RosterTest, AnAgentCannotPlayWithNodesThatAreOver) {
  RunAll();
  roster_.Finish(1, clock_.Now());
  EXPECT_THAT(roster_.SetState(1, State(kRunning), clock_.Now()), IsEmpty());
  EXPECT_THAT(roster_.Fail(1, Report("late"), clock_.Now()), IsEmpty());
  EXPECT_THAT(roster_.SetState(99, State(kRunning), clock_.Now()), IsEmpty());
  EXPECT_FALSE(roster_.failure().has_value());
}

TEST_F(RosterTest, OnlyChangedMetricsAreHandedOut) {
  Form();
  EXPECT_THAT(roster_.TakeChangedMetrics(), IsEmpty());
  roster_.RecordHeartbeat(1, {.metrics = {{"rows", std::int64_t{5}}}}, clock_.Now());
  auto changed = roster_.TakeChangedMetrics();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].node_id, 1);
  roster_.RecordHeartbeat(1, {.metrics = {{"rows", std::int64_t{5}}}}, clock_.Now());
  EXPECT_THAT(roster_.TakeChangedMetrics(), IsEmpty());
  roster_.RecordHeartbeat(1, {.metrics = {{"step", std::int64_t{1}}}}, clock_.Now());
  changed = roster_.TakeChangedMetrics();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].metrics.size(), 2u);
}

TEST_F(RosterTest, NewNamesOfMetricsWithoutEndAreCountedAndNotKept) {
  Form();
  constexpr auto kMost = static_cast<std::int64_t>(LatestMetrics::kMostNames);
  for (std::int64_t step = 0; step < kMost + 7; ++step) {
    roster_.RecordHeartbeat(1, {.metrics = {{fmt::format("loss of step {}", step), step}}},
                            clock_.Now());
  }
  auto changed = roster_.TakeChangedMetrics();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].metrics.size(), LatestMetrics::kMostNames + 1);
  const std::string left_out(LatestMetrics::kLeftOut);
  EXPECT_EQ(changed[0].metrics[left_out], MetricValue(std::int64_t{7}));
  // Those that are known go on.
  roster_.RecordHeartbeat(1, {.metrics = {{"loss of step 0", std::int64_t{5}}}}, clock_.Now());
  changed = roster_.TakeChangedMetrics();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].metrics["loss of step 0"], MetricValue(std::int64_t{5}));
}

TEST_F(RosterTest, TheUsageOfGpusIsGoneOnceAHeartbeatLeavesItOut) {
  Form();
  roster_.RecordHeartbeat(1, {.metrics = {{"gpu_utilization", 0.5}, {"loss", 1.0}}}, clock_.Now());
  EXPECT_EQ(roster_.TakeChangedMetrics().at(0).metrics.size(), 2u);
  roster_.RecordHeartbeat(1, {.metrics = {}}, clock_.Now());
  const auto changed = roster_.TakeChangedMetrics();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].metrics, Metrics({{"loss", 1.0}}));
  roster_.RecordHeartbeat(1, {.metrics = {}}, clock_.Now());
  EXPECT_TRUE(roster_.TakeChangedMetrics().empty());
}

TEST_F(RosterTest, ANodeThatGivesNoSignOfLifeHasNoRatesOfItsOwn) {
  Form();
  const auto take = [this](const Metrics& metrics) {
    roster_.RecordHeartbeat(1, {.metrics = metrics}, clock_.Now());
    return roster_.TakeChangedMetrics().at(0).metrics;
  };
  const Metrics answers = {{"seconds_without_answer", std::int64_t{0}}, {"loss", 1.0}};
  const Metrics silent = {{"seconds_without_answer", std::int64_t{2}}, {"loss", 1.0}};
  Metrics trains = answers;
  trains["collective_bytes_per_second"] = 8.0;
  EXPECT_EQ(take(trains), trains);
  EXPECT_EQ(take(silent), silent);
  EXPECT_EQ(take(trains), trains);
}

TEST_F(RosterTest, ANodeThatMakesNoStepsAnyMoreIsNamedUnlessItsWordsExplainIt) {
  Form();
  roster_.SetState(1, State(kRunning), clock_.Now());
  std::int64_t step = 0;
  const auto beat = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      clock_.Advance(milliseconds(1000));
      roster_.RecordHeartbeat(1, {.metrics = {{"step", step}}}, clock_.Now());
    }
    return roster_.Snapshot(clock_.Now()).nodes[1].detail;
  };
  for (step = 1; step < 5; ++step) EXPECT_EQ(beat(1), "");
  beat(1);
  EXPECT_EQ(beat(29), "");
  EXPECT_EQ(beat(41), "no step for 1:10");
  EXPECT_EQ(roster_.Nodes(clock_.Now())[1].state, kRunning) << "it is a notice";
  ++step;
  EXPECT_EQ(beat(1), "");
  roster_.SetState(1, State(kRunning, "evaluating"), clock_.Now());
  EXPECT_EQ(beat(100), "evaluating");
  for (const bool at_once : {false, true}) {
    roster_.EndFeed({.at_once = at_once}, clock_.Now());
    EXPECT_EQ(roster_.Nodes(clock_.Now())[1].state, kDraining);
    EXPECT_EQ(beat(100), "evaluating") << "it says so once";
  }
  roster_.SetState(1, State(kRunning), clock_.Now());
  EXPECT_EQ(beat(1), "stopping: no more rows will come");
}

TEST_F(RosterTest, ExplainsEachNodeInASentence) {
  RegisterNode(1);
  roster_.SetState(1, State(kRegistered, "importing TensorFlow"), clock_.Now());
  clock_.Advance(milliseconds(2500));
  EXPECT_EQ(ExplainNode(roster_.Nodes(clock_.Now())[1], "10.0.0.5:7077"),
            "worker:0 (node 1 on h1): registered for 2.5 s (importing TensorFlow)");
}

}  // namespace
}  // namespace tfos::control
