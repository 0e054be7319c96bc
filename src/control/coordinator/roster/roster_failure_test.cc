// What makes a cluster fail, what it bears, and whom a failure blames.

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "control/coordinator/roster/offices/step_ticket_office.h"
#include "control/coordinator/roster/roster_fixture.h"

namespace tfos::control {
namespace {

TEST_F(RosterTest, MissingNodesAreNamedAtTheDeadline) {
  RegisterNode(0);
  clock_.Advance(seconds(5));
  roster_.RecordHeartbeat(0, {}, clock_.Now());
  clock_.Advance(seconds(54));
  roster_.RecordHeartbeat(0, {}, clock_.Now());
  EXPECT_THAT(roster_.Tick(clock_.Now()), IsEmpty());
  clock_.Advance(seconds(1));
  EXPECT_THAT(Words(roster_.Tick(clock_.Now())),
              ElementsAre("driver failed", "agent 0 stop", "driver node 0 draining",
                          "driver node 1 lost", "driver node 2 lost"));
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_EQ(roster_.failure()->node_id, -1);
  EXPECT_EQ(roster_.failure()->report.step, "start");
  const std::string& message = roster_.failure()->report.message;
  EXPECT_THAT(message, HasSubstr("2 of 3 nodes"));
  EXPECT_THAT(message, HasSubstr("worker:0 (node 1): no word from its agent for 60 s"));
  EXPECT_THAT(message, HasSubstr("worker:1 (node 2)"));
  EXPECT_THAT(message, HasSubstr("10.0.0.5:7077"));
  EXPECT_THAT(message, testing::Not(HasSubstr("ps:0")));
}

TEST_F(RosterTest, ANodeThatDoesNotGetToItsProgramFailsAtTheDeadline) {
  clock_.Advance(seconds(50));  // how long forming took does not count
  Form();
  roster_.SetState(0, State(kRunning), clock_.Now());
  roster_.SetState(2, State(kRunning), clock_.Now());
  roster_.SetState(1, State(kRegistered, "importing the program"), clock_.Now());
  const auto beat = [this] {
    for (int i = 0; i < 3; ++i) roster_.RecordHeartbeat(i, {}, clock_.Now());
  };
  for (int i = 0; i < 29; ++i) {
    clock_.Advance(seconds(1));
    beat();
    ASSERT_THAT(roster_.Tick(clock_.Now()), IsEmpty());
  }
  clock_.Advance(seconds(1));
  EXPECT_THAT(
      Words(roster_.Tick(clock_.Now())),
      ElementsAre("driver node 1 failed", "driver failed", "agent 0 stop", "driver node 0 draining",
                  "agent 1 stop", "agent 2 stop", "driver node 2 draining"));
  EXPECT_EQ(roster_.failure()->node_id, 1);
  EXPECT_EQ(roster_.failure()->host, "h1");
  EXPECT_EQ(roster_.failure()->report.step, "start the node");
  EXPECT_THAT(roster_.failure()->report.message,
              HasSubstr("worker:0 (node 1 on h1) has not called its program within 30 s "
                        "(spark.tfos.node.startTimeout): it is registered and last said "
                        "'importing the program'"));
  beat();
  EXPECT_THAT(roster_.Tick(clock_.Now()), IsEmpty());
}

/// ps:0 makes no steps; worker:0 and worker:1 may stand for 60 s.
class StepTimeoutTest : public RosterTest {
 protected:
  explicit StepTimeoutTest(int max_lost_nodes = 0) {
    RosterOptions options = Options();
    options.step_timeout = seconds(60);
    options.max_lost_nodes = max_lost_nodes;
    roster_ = Roster(options, clock_.Now());
    RunAll();
    for (int i = 0; i < 2; ++i) {
      for (Metrics& of_node : metrics_) MakeStep(of_node);
      EXPECT_THAT(Pass(seconds(1)), IsEmpty());
    }
  }

  static void MakeStep(Metrics& of_node) {
    of_node["step"] = NumberOf(of_node, "step").value_or(0) + 1;
  }

  /// Time in which agents send heartbeats, and what follows.
  std::vector<std::string> Pass(seconds time) {
    clock_.Advance(time);
    roster_.RecordHeartbeat(0, {}, clock_.Now());
    for (int i = 0; i < 2; ++i) {
      roster_.RecordHeartbeat(i + 1, {metrics_.at(static_cast<std::size_t>(i))}, clock_.Now());
    }
    return Words(roster_.Tick(clock_.Now()));
  }

  std::array<Metrics, 2> metrics_;  // of the two workers
};

class StepTimeoutWithALossTest : public StepTimeoutTest {
 protected:
  StepTimeoutWithALossTest() : StepTimeoutTest(1) {}
};

TEST_F(StepTimeoutTest, ANodeThatMakesNoStepsIsAskedWhereItStandsAndFails) {
  roster_.SetState(2, State(kRunning, "evaluating"), clock_.Now());
  MakeStep(metrics_[0]);
  EXPECT_THAT(Pass(seconds(59)), IsEmpty());
  MakeStep(metrics_[0]);
  EXPECT_THAT(Pass(seconds(1)), ElementsAre("stacks of 2"));
  EXPECT_THAT(Pass(seconds(1)), IsEmpty());
  roster_.TakeStacks(2, 1, "File \"train.py\", line 7");
  EXPECT_THAT(Pass(seconds(1)), ElementsAre("driver node 2 failed", "driver failed", "agent 0 stop",
                                            "driver node 0 draining", "agent 1 stop",
                                            "driver node 1 draining", "agent 2 stop"));
  const Failure& failure = *roster_.failure();
  EXPECT_EQ(failure.node_id, 2);
  EXPECT_EQ(failure.host, "h2");
  EXPECT_TRUE(failure.report.lost);
  EXPECT_EQ(failure.report.step, "make a step");
  EXPECT_EQ(failure.report.traceback, "File \"train.py\", line 7");
  EXPECT_EQ(failure.report.message,
            "worker:1 (node 2 on h2) has made no step and read no row for 62 s, and did not wait "
            "for rows (spark.tfos.node.stepTimeout). Its last step was 2. It was running "
            "(evaluating). If it may take longer to evaluate, to save or to export, raise the "
            "setting (0: no limit).");
}

TEST_F(StepTimeoutTest, ANodeThatDoesNotSayWhereItStandsFailsNevertheless) {
  MakeStep(metrics_[1]);
  EXPECT_THAT(Pass(seconds(59)), IsEmpty());
  EXPECT_THAT(Pass(seconds(1)), ElementsAre("stacks of 1"));
  MakeStep(metrics_[1]);
  EXPECT_THAT(Pass(seconds(14)), IsEmpty());
  EXPECT_THAT(Pass(seconds(1)), testing::Contains("driver node 1 failed"));
  EXPECT_THAT(roster_.failure()->report.message, HasSubstr("`tfos stack`"));
}

TEST_F(StepTimeoutTest, ANodeThatGoesOnInTimeIsLeftAlone) {
  MakeStep(metrics_[1]);
  EXPECT_THAT(Pass(seconds(59)), IsEmpty());
  EXPECT_THAT(Pass(seconds(1)), ElementsAre("stacks of 1"));
  roster_.TakeStacks(1, 1, "somewhere");
  for (Metrics& of_node : metrics_) MakeStep(of_node);
  EXPECT_THAT(Pass(seconds(1)), IsEmpty());
  MakeStep(metrics_[1]);
  EXPECT_THAT(Pass(seconds(60)), ElementsAre("stacks of 1")) << "it is asked again";
}

TEST_F(StepTimeoutTest, WhereItStoodBeforeIsNotWhereItStandsNow) {
  MakeStep(metrics_[1]);
  EXPECT_THAT(Pass(seconds(59)), IsEmpty());
  EXPECT_THAT(Pass(seconds(1)), ElementsAre("stacks of 1"));
  for (Metrics& of_node : metrics_) MakeStep(of_node);
  EXPECT_THAT(Pass(seconds(1)), IsEmpty());
  MakeStep(metrics_[1]);
  EXPECT_THAT(Pass(seconds(60)), ElementsAre("stacks of 1"));
  roster_.TakeStacks(1, 1, "where it stood before");
  EXPECT_THAT(Pass(seconds(1)), IsEmpty()) << "it is still to answer";
  roster_.TakeStacks(1, 2, "where it stands");
  EXPECT_THAT(Pass(seconds(1)), testing::Contains("driver node 1 failed"));
  EXPECT_EQ(roster_.failure()->report.traceback, "where it stands");
}

TEST_F(StepTimeoutTest, WhatHasItsRowsStandsToo) {
  roster_.EndFeed({}, clock_.Now());
  EXPECT_EQ(StateOf(1), kDraining);
  for (Metrics& of_node : metrics_) of_node["progress"] = 1.0;
  EXPECT_THAT(Pass(seconds(60)), testing::Contains(HasSubstr("stacks of")));
}

TEST_F(StepTimeoutTest, OfNodesThatWaitForOthersTheOneIsToBlameThatDoesNot) {
  metrics_[0]["share_waiting_for_nodes"] = 0.9;
  EXPECT_THAT(Pass(seconds(60)), ElementsAre("stacks of 2"));
}

TEST_F(StepTimeoutTest, WhoWaitsForOneThatWaitsForRowsDoesNotStand) {
  metrics_[0]["share_waiting_for_nodes"] = 0.9;
  for (double waited = 60; waited <= 600; waited += 60) {
    metrics_[1]["feed_node_wait_seconds"] = waited;
    EXPECT_THAT(Pass(seconds(60)), IsEmpty());
  }
}

TEST_F(StepTimeoutTest, WhoWaitsForAFrozenOneDoesNotStand) {
  metrics_[0]["share_waiting_for_nodes"] = 0.9;
  metrics_[1]["seconds_without_answer"] = 5;
  for (int i = 0; i < 10; ++i) EXPECT_THAT(Pass(seconds(60)), IsEmpty());
}

TEST_F(StepTimeoutTest, NodesThatAllWaitForEachOtherStand) {
  for (Metrics& of_node : metrics_) of_node["share_waiting_for_nodes"] = 0.9;
  EXPECT_THAT(Pass(seconds(60)), ElementsAre("stacks of 1"));
  roster_.TakeStacks(1, 1, "somewhere");
  Pass(seconds(1));
  EXPECT_THAT(roster_.failure()->report.message,
              HasSubstr("waits for other nodes, and so do they"));
}

TEST_F(StepTimeoutTest, WhatStopsHasAnotherLimit) {
  roster_.EndFeed({.at_once = true}, clock_.Now());
  for (int i = 0; i < 10; ++i) EXPECT_THAT(Pass(seconds(60)), IsEmpty());
}

TEST_F(StepTimeoutWithALossTest, OneThatMayBeLostIsStoppedAndTheOthersHaveTimeToGoOn) {
  EXPECT_THAT(Pass(seconds(59)), IsEmpty());
  MakeStep(metrics_[0]);
  EXPECT_THAT(Pass(seconds(1)), ElementsAre("stacks of 2"));
  EXPECT_THAT(Pass(seconds(15)), ElementsAre("agent 2 stop", "driver node 2 lost"));
  EXPECT_THAT(roster_.Nodes(clock_.Now())[2].detail, HasSubstr("has made no step"));
  EXPECT_FALSE(roster_.failure().has_value());
  EXPECT_THAT(Pass(seconds(59)), IsEmpty());
}

TEST_F(RosterTest, WithoutALimitANodeMayStandForEver) {
  RunAll();
  for (int step = 1; step <= 2; ++step) {
    roster_.RecordHeartbeat(1, {{{"step", std::int64_t{step}}}}, clock_.Now());
  }
  for (int i = 0; i < 1000; ++i) {
    clock_.Advance(seconds(9));
    for (int node = 0; node < 3; ++node) roster_.RecordHeartbeat(node, {}, clock_.Now());
    EXPECT_THAT(roster_.Tick(clock_.Now()), IsEmpty());
  }
}

TEST_F(RosterTest, ANodeThatIsStoppedNeedNotStartInTime) {
  Form();
  roster_.StopAll({.reason = "shut down", .grace = seconds(60)}, clock_.Now());
  clock_.Advance(seconds(9));
  for (int i = 0; i < 3; ++i) roster_.RecordHeartbeat(i, {}, clock_.Now());
  clock_.Advance(seconds(9));
  for (int i = 0; i < 3; ++i) roster_.RecordHeartbeat(i, {}, clock_.Now());
  clock_.Advance(seconds(9));
  for (int i = 0; i < 3; ++i) roster_.RecordHeartbeat(i, {}, clock_.Now());
  clock_.Advance(seconds(9));
  EXPECT_THAT(roster_.Tick(clock_.Now()), IsEmpty());
  EXPECT_FALSE(roster_.failure().has_value());
}

TEST_F(RosterTest, TheFirstFailureWinsAndEveryoneElseIsToldWhy) {
  RunAll();
  const Effects effects = roster_.Fail(2, Report("ValueError: seven"), clock_.Now());
  EXPECT_THAT(Words(effects), ElementsAre("driver node 2 failed", "driver failed", "agent 0 stop",
                                          "driver node 0 draining", "agent 1 stop",
                                          "driver node 1 draining", "agent 2 stop"));
  for (const Effect& effect : effects) {
    if (const auto* tell = std::get_if<TellAgent>(&effect)) {
      EXPECT_THAT(std::get<Stop>(tell->command).reason,
                  HasSubstr("worker:1 (node 2 on h2) failed: ValueError: seven"));
    }
  }
  EXPECT_THAT(Words(roster_.Fail(1, Report("terminated"), clock_.Now())),
              ElementsAre("driver node 1 failed"));
  EXPECT_EQ(roster_.failure()->report.message, "ValueError: seven");
  EXPECT_EQ(roster_.failure()->host, "h2");
  EXPECT_EQ(roster_.Nodes(clock_.Now())[2].detail, "could not run map_fun: ValueError: seven");
}

TEST_F(RosterTest, WhatEndsBecauseAnotherFailedIsStoppedAndNotDone) {
  RunAll();
  roster_.Finish(1, clock_.Now());
  roster_.Fail(2, Report("ValueError: seven"), clock_.Now());
  roster_.Finish(0, clock_.Now());
  EXPECT_EQ(StateOf(1), kDone) << "its program had returned before";
  EXPECT_EQ(StateOf(0), kStopped);
  EXPECT_THAT(roster_.Nodes(clock_.Now())[0].detail,
              HasSubstr("worker:1 (node 2 on h2) failed: ValueError: seven"));
}

TEST_F(RosterTest, AVanishedAgentIsAFailureWithHostAndLastState) {
  RunAll();
  clock_.Advance(seconds(3));
  const auto words = Words(roster_.ConnectionLost(1, clock_.Now()));
  EXPECT_THAT(words, testing::Contains("driver node 1 lost"));
  EXPECT_THAT(words, testing::Contains("driver failed"));
  EXPECT_THAT(words, testing::Contains("agent 0 stop"));
  EXPECT_THAT(words, testing::Not(testing::Contains("agent 1 stop")));
  EXPECT_EQ(roster_.failure()->host, "h1");
  EXPECT_THAT(roster_.failure()->report.message, HasSubstr("worker:0 (node 1 on h1) is lost"));
  EXPECT_THAT(roster_.failure()->report.message, HasSubstr("while it was running for 3.0 s"));
}

TEST_F(RosterTest, ClosingAfterDoneIsNoFailure) {
  RunAll();
  roster_.Finish(1, clock_.Now());
  EXPECT_THAT(roster_.ConnectionLost(1, clock_.Now()), IsEmpty());
  EXPECT_FALSE(roster_.failure().has_value());
}

TEST_F(RosterTest, ASilentAgentIsLost) {
  RunAll();
  clock_.Advance(seconds(9));
  roster_.RecordHeartbeat(0, {}, clock_.Now());
  roster_.RecordHeartbeat(2, {}, clock_.Now());
  EXPECT_THAT(roster_.Tick(clock_.Now()), IsEmpty());
  clock_.Advance(seconds(1));
  const auto words = Words(roster_.Tick(clock_.Now()));
  EXPECT_THAT(words, testing::IsSupersetOf({"disconnect 1", "driver node 1 lost", "driver failed",
                                            "agent 0 stop", "agent 2 stop"}));
  EXPECT_THAT(roster_.failure()->report.message, HasSubstr("no heartbeat"));
}

TEST_F(RosterTest, ALossThatIsBorneEndsNothing) {
  Bear(1);
  RunAll();
  EXPECT_THAT(Words(roster_.Fail(2, Loss("killed by SIGKILL"), clock_.Now())),
              testing::ElementsAre("driver node 2 lost"));
  EXPECT_THAT(Words(roster_.ConnectionLost(2, clock_.Now())), IsEmpty());
  EXPECT_FALSE(roster_.failure().has_value());
  roster_.Finish(1, clock_.Now());
  roster_.ConnectionLost(1, clock_.Now());
  roster_.StopAll({.reason = "shut down", .grace = seconds(1)}, clock_.Now());
  roster_.ConnectionLost(0, clock_.Now());
  EXPECT_TRUE(roster_.finished());
}

TEST_F(RosterTest, AnAgentThatVanishesMayBeBorne) {
  Bear(1);
  RunAll();
  EXPECT_THAT(Words(roster_.ConnectionLost(2, clock_.Now())),
              testing::ElementsAre("driver node 2 lost"));
}

struct UnbearableLoss {
  std::string name;
  int bearable;
  int node_id;
  bool lost;
  bool formed;
};

void PrintTo(const UnbearableLoss& tested, std::ostream* out) { *out << tested.name; }

class UnbearableLossTest : public RosterTest, public testing::WithParamInterface<UnbearableLoss> {};

TEST_P(UnbearableLossTest, EndsTheCluster) {
  const UnbearableLoss& c = GetParam();
  Bear(c.bearable);
  if (c.formed) {
    RunAll();
  } else {
    RegisterNode(c.node_id);
  }
  const FailureReport report = c.lost ? Loss("killed") : Report("ValueError");
  EXPECT_THAT(Words(roster_.Fail(c.node_id, report, clock_.Now())),
              testing::Contains("driver failed"));
}

INSTANTIATE_TEST_SUITE_P(All, UnbearableLossTest,
                         testing::Values(UnbearableLoss{"OfNone", 0, 2, true, true},
                                         UnbearableLoss{"OfTheChief", 1, 1, true, true},
                                         UnbearableLoss{"OfAService", 1, 0, true, true},
                                         UnbearableLoss{"ByTheProgramsFault", 1, 2, false, true},
                                         UnbearableLoss{"BeforeTheClusterFormed", 1, 2, true,
                                                        false}),
                         [](const auto& param_info) { return param_info.param.name; });

TEST_F(RosterTest, AllNodesHearWhoseExecutorSparkTakesAwayAndItsLossNamesThat) {
  RunAll();
  EXPECT_THAT(Words(roster_.Leave({.node_id = 1, .reason = "executor 7 goes"}, clock_.Now())),
              ElementsAre("driver node 1 running", "agent 0 leaving", "agent 1 leaving",
                          "agent 2 leaving"));
  EXPECT_EQ(roster_.Nodes(clock_.Now())[1].leaving, "executor 7 goes");
  roster_.Fail(1, Loss("its executor has ended"), clock_.Now());
  EXPECT_EQ(roster_.failure()->report.message,
            "its executor has ended. Spark had announced it: executor 7 goes");
  EXPECT_THAT(roster_.Leave({.node_id = 1, .reason = "again"}, clock_.Now()), IsEmpty());
  EXPECT_THAT(roster_.Leave({.node_id = 99, .reason = "nobody"}, clock_.Now()), IsEmpty());
}

TEST_F(RosterTest, ANodeThatHasGoneIsNotAboutToBeLost) {
  Bear(1);
  RunAll();
  roster_.Leave({.node_id = 2, .reason = "executor 7 goes"}, clock_.Now());
  const Effects effects = roster_.Fail(2, Loss("its executor has ended"), clock_.Now());
  EXPECT_THAT(Words(effects), ElementsAre("driver node 2 lost", "agent 0 leaving",
                                          "agent 1 leaving", "agent 2 leaving"));
  const auto& told = std::get<NodeLeaving>(std::get<TellAgent>(effects[1]).command);
  EXPECT_EQ(told.node_id, 2);
  EXPECT_EQ(told.reason, "");
}

TEST_F(RosterTest, OneThatComesAfterTheNoticeHearsOfItToo) {
  RegisterNode(1);
  roster_.Leave({.node_id = 1, .reason = "executor 7 goes"}, clock_.Now());
  EXPECT_THAT(Words(RegisterNode(2)), ElementsAre("driver node 2 registered", "agent 2 leaving"));
}

TEST_F(RosterTest, AConnectionThatBreaksAsAnnouncedSaysSo) {
  RunAll();
  roster_.Leave({.node_id = 1, .reason = "executor 7 goes"}, clock_.Now());
  roster_.ConnectionLost(1, clock_.Now());
  EXPECT_THAT(roster_.failure()->report.message, HasSubstr("announced it: executor 7 goes"));
}

TEST_F(RosterTest, AProgramThatFailsOnALeavingExecutorIsToBlameItself) {
  RunAll();
  roster_.Leave({.node_id = 1, .reason = "executor 7 goes"}, clock_.Now());
  roster_.Fail(1, Report("ValueError"), clock_.Now());
  EXPECT_EQ(roster_.failure()->report.message, "ValueError");
}

TEST_F(RosterTest, TheDriversFailureStopsEveryone) {
  RunAll();
  DriverFailure failure;
  failure.report = {
      .step = "launch", .message = "Spark's job failed", .traceback = {}, .log_tail = {}};
  EXPECT_THAT(Words(roster_.FailFromDriver(failure, clock_.Now())),
              testing::IsSupersetOf({"driver failed", "agent 0 stop", "agent 2 stop"}));
  EXPECT_EQ(roster_.failure()->node_id, -1);
}

TEST_F(RosterTest, ANodeThatReportsStepsOfEverNewQueuesFails) {
  Form();
  for (std::size_t i = 0; i < StepTicketOffice::kMostEpochs; ++i) {
    roster_.RecordSteps(1, {.queue = fmt::format("queue {}", i)}, clock_.Now());
  }
  EXPECT_FALSE(roster_.failure().has_value());
  roster_.RecordSteps(1, {.queue = "queue 0", .full_batches = 1}, clock_.Now());
  EXPECT_FALSE(roster_.failure().has_value()) << "one that is known";
  roster_.RecordSteps(1, {.queue = "one more"}, clock_.Now());
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_EQ(roster_.failure()->node_id, 1);
  EXPECT_THAT(roster_.failure()->report.message, testing::HasSubstr("queue 'one more'"));
}

}  // namespace
}  // namespace tfos::control
