#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/format.h"
#include "control/coordinator/roster/elastic_roster_fixture.h"
#include "control/coordinator/roster/node_words.h"

namespace tfos::control {
namespace {

TEST_F(ElasticRosterTest, TheOthersGoOnWithoutANodeThatIsKilled) {
  EXPECT_THAT(Told(roster_.Fail(2, Killed(), now_)), ElementsAre("1 regroup 1", "3 regroup 1"));
  EXPECT_FALSE(roster_.failure().has_value());
  EXPECT_THAT(Told(roster_.RecordReady(3, Ready(1, 17), now_)), IsEmpty());
  EXPECT_THAT(Told(roster_.RecordReady(1, Ready(1, 16), now_)),
              ElementsAre("1 group 1 after 17 of 0@10.0.0.1:2001 2@10.0.0.3:2003",
                          "3 group 1 after 17 of 0@10.0.0.1:2001 2@10.0.0.3:2003"));
}

TEST_F(ElasticRosterTest, TheFirstNodeMayBeLostToo) {
  EXPECT_THAT(Told(roster_.ConnectionLost(1, now_)), ElementsAre("2 regroup 1", "3 regroup 1"));
  EXPECT_FALSE(roster_.failure().has_value());
}

TEST_F(ElasticRosterTest, ANodeWithoutHeartbeatsIsLost) {
  now_ += seconds(9);
  for (const int node : {0, 1, 3}) roster_.RecordHeartbeat(node, {}, now_);
  now_ += seconds(2);
  EXPECT_THAT(Told(roster_.Tick(now_)), ElementsAre("1 regroup 1", "3 regroup 1"));
}

TEST_F(ElasticRosterTest, BelowTheMinimumTheClusterFails) {
  roster_.Fail(2, Killed(), now_);
  roster_.Fail(1, Killed(), now_);
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_EQ(roster_.failure()->node_id, 1);
  EXPECT_THAT(roster_.failure()->report.message,
              HasSubstr("killed by signal 9. 1 of at least 2 nodes that train are left, and none "
                        "comes in place of a lost one: spark.tfos.lateNodes is false"));
}

TEST_F(ElasticRosterTest, AnErrorOfTheProgramIsAFailure) {
  FailureReport report;
  report.step = "run the program";
  // It comes of no other node: this group goes on without lost ones.
  report.message = "ValueError: 1, and not as many as worker:0 has";
  roster_.Fail(2, report, now_);
  EXPECT_TRUE(roster_.failure().has_value());
}

TEST_F(ElasticRosterTest, AServiceIsNeeded) {
  roster_.Fail(0, Killed(), now_);
  EXPECT_TRUE(roster_.failure().has_value());
}

TEST_F(ElasticRosterTest, ANodeThatIsDoneIsNotWaitedForAndCountsAsThere) {
  roster_.Finish(1, now_);
  EXPECT_THAT(Told(roster_.Fail(2, Killed(), now_)), ElementsAre("3 regroup 1"));
  EXPECT_FALSE(roster_.failure().has_value());
  EXPECT_THAT(Told(roster_.RecordReady(3, Ready(1, 4), now_)),
              ElementsAre("3 group 1 after 4 of 2@10.0.0.3:2003"));
}

/// Members may stand for 30 s.
class ElasticStepTimeoutTest : public ElasticRosterTest {
 protected:
  ElasticStepTimeoutTest() {
    RosterOptions options = Options(/*late_nodes=*/true);
    options.step_timeout = seconds(30);
    roster_ = Roster(options, now_);
    Form(4);
    Step();
  }

  void Step() {
    for (const int node : {1, 2, 3}) {
      roster_.RecordHeartbeat(node, {{{"step", ++steps_}}}, now_);
    }
  }

  /// Nodes that are asked for their stacks.
  static std::vector<int> Asked(const Effects& effects) {
    std::vector<int> asked;
    for (const Effect& effect : effects) {
      if (const auto* ask = std::get_if<AskStacks>(&effect)) asked.push_back(ask->node_id);
    }
    return asked;
  }

  std::int64_t steps_ = 0;
};

TEST_F(ElasticStepTimeoutTest, TheOthersGoOnWithoutAMemberThatMakesNoSteps) {
  now_ += seconds(30);
  roster_.RecordHeartbeat(2, {}, now_);
  for (const int node : {1, 3}) {
    roster_.RecordHeartbeat(node, {{{"share_waiting_for_nodes", 0.9}}}, now_);
  }
  roster_.RecordHeartbeat(0, {}, now_);
  EXPECT_THAT(Asked(roster_.Tick(now_)), ElementsAre(2));
  roster_.TakeStacks(2, 1, "somewhere");
  EXPECT_THAT(Told(roster_.Tick(now_)),
              ElementsAre(HasSubstr("2 stop: worker:1 (node 2 on h2) has made no step"),
                          "1 regroup 1", "3 regroup 1"));
  EXPECT_FALSE(roster_.failure().has_value());
  EXPECT_THAT(Asked(Pass(seconds(29))), IsEmpty()) << "the others have time to go on";
}

TEST_F(ElasticStepTimeoutTest, AMemberThatIsReadyWaitsForTheOneThatIsNot) {
  roster_.Fail(2, Killed(), now_);
  roster_.RecordReady(1, Ready(1, 5), now_);
  EXPECT_THAT(Asked(Pass(seconds(30))), ElementsAre(3));
}

TEST_F(ElasticStepTimeoutTest, WhileThereAreTooFewAnotherLimitHolds) {
  roster_.Fail(2, Killed(), now_);
  roster_.Fail(3, Killed(), now_);
  EXPECT_THAT(Asked(Pass(seconds(20))), IsEmpty());
  EXPECT_THAT(Asked(Pass(seconds(35))), IsEmpty());
  EXPECT_FALSE(roster_.failure().has_value());
}

TEST_F(ElasticRosterTest, NodesThatGetNowhereAreAFailure) {
  for (int generation = 1; generation <= 4; ++generation) {
    for (const int node : {1, 2, 3}) roster_.RecordReady(node, Ready(generation, 5), now_);
  }
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_THAT(roster_.failure()->report.message, HasSubstr("none of them is lost"));
}

TEST_F(ElasticRosterTest, ALostNodeIsToldThatItIsNoMember) {
  roster_.Fail(2, Killed(), now_);
  EXPECT_THAT(
      Told(roster_.RecordReady(2, Ready(1, 5), now_)),
      ElementsAre("2 no group: worker:1 (node 2 on h2) is not a member of its group any more: "
                  "it is lost, the node's process was killed by signal 9"));
}

TEST_F(ElasticRosterTest, AStopEndsTheWaitOfAllThatAreReadyOrBecomeSo) {
  const std::string none = "no group: the cluster is stopping: enough";
  EXPECT_THAT(Told(roster_.StopAll({.reason = "enough"}, now_)),
              ElementsAre("0 stop: enough", "1 stop: enough", "1 " + none, "2 stop: enough",
                          "2 " + none, "3 stop: enough", "3 " + none));
  EXPECT_THAT(Told(roster_.RecordReady(1, Ready(1, 5), now_)), ElementsAre("1 " + none));
}

TEST_F(ElasticRosterTest, RanksAreGivenOutOnce) {
  std::vector<int> ranks;
  for (const NodeInfo& node : roster_.Nodes(now_)) ranks.push_back(node.rank);
  EXPECT_THAT(ranks, ElementsAre(-1, 0, 1, 2));
}

TEST_F(ElasticRosterTest, NobodyComesInPlaceOfALostNodeUnlessItIsWanted) {
  roster_.Fail(2, Killed(), now_);
  const auto refused = Come(2);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("is lost, and this cluster takes no other node in its place"));
}

/// A program that trains on two queues in turn leaves an epoch in the middle, and the driver ends
/// it before the others have begun it. A node that comes later would wait for its end.
TEST_F(ElasticRosterTest, ANodeThatComesLateHearsOfEpochsThatHaveEnded) {
  roster_ = Roster(Options(/*late_nodes=*/true), now_);
  Form(4);
  roster_.EndEpoch({.queue = "input", .epoch = 1}, now_);
  roster_.Fail(2, Killed(), now_);
  const auto came = Come(2);
  ASSERT_TRUE(came.ok()) << came.status().ToString();
  std::vector<std::string> told;
  for (const Effect& effect : *came) {
    const auto* tell = std::get_if<TellAgent>(&effect);
    const auto* ended = tell == nullptr ? nullptr : std::get_if<EndEpoch>(&tell->command);
    if (ended == nullptr) continue;
    told.push_back(fmt::format("{} {} {}", tell->node_id, ended->queue, ended->epoch));
  }
  EXPECT_THAT(told, ElementsAre("2 input 1"));
}

TEST_F(ElasticRosterTest, NoStepIsGrantedToNodesThatAreStopped) {
  roster_.StopAll({.reason = "enough", .grace = {}}, now_);
  for (const int node : {1, 2, 3}) {
    const StepReport report{.queue = "input", .epoch = 0, .full_batches = 5};
    EXPECT_THAT(roster_.RecordSteps(node, report, now_), IsEmpty());
  }
}

/// Where a host is avoided after two losses in a minute. Nodes 1 and 2 are on host "a", 3 on "b".
class AvoidedHostTest : public ElasticRosterTest {
 protected:
  AvoidedHostTest() { Begin(2, {"s", "a", "a", "b"}); }

  void Begin(int limit, const std::vector<std::string>& hosts, seconds period = seconds(60)) {
    RosterOptions options = Options(/*late_nodes=*/true);
    options.max_losses_of_host = limit;
    options.loss_period = period;
    roster_ = Roster(options, now_);
    for (int node = 0; node < 4; ++node)
      EXPECT_EQ(ComeTo(hosts[static_cast<std::size_t>(node)], node), "");
    for (int node = 0; node < 4; ++node) roster_.SetState(node, Running(), now_);
  }

  /// Why it is refused; empty if it isn't.
  std::string ComeTo(const std::string& host, int node = 2) {
    message_.node_id = node;
    message_.host = host;
    message_.address = fmt::format("10.0.0.{}", node);
    message_.tensor_port = 2000 + node;
    const auto come = roster_.Register(message_, now_);
    return come.ok() ? "" : std::string(come.status().message());
  }
  /// What the driver hears of the attempt that was refused last.
  std::vector<std::string> TurnedAwayNow() {
    std::vector<std::string> told;
    for (const Effect& effect : roster_.Refused(message_, now_)) {
      const auto* tell = std::get_if<TellDriver>(&effect);
      const auto* away = tell == nullptr ? nullptr : std::get_if<TurnedAway>(&tell->event);
      if (away != nullptr) told.push_back(fmt::format("{} {}", away->node_id, away->host));
    }
    return told;
  }
  /// Node 2 is lost on "a" so often that it is avoided.
  void LoseTwice() {
    roster_.Fail(2, Killed(), now_);
    EXPECT_EQ(ComeTo("a"), "");
    now_ += seconds(5);
    roster_.Fail(2, Killed(), now_);
  }

  Register message_;
};

TEST_F(AvoidedHostTest, ANodeIsTurnedAwayFromAHostOnWhichNodesWereLost) {
  LoseTwice();
  now_ += seconds(1);
  EXPECT_EQ(ComeTo("a"),
            "host a is avoided: nodes were lost there 2 times within 5.0 s. Another host is to "
            "take the node (spark.tfos.hosts.maxLosses, spark.tfos.hosts.lossPeriod)");
  EXPECT_THAT(TurnedAwayNow(), ElementsAre("2 a"));
  EXPECT_THAT(ExplainNode(roster_.Nodes(now_)[2], ""), HasSubstr("signal 9. host a is avoided: "));
  EXPECT_NE(ComeTo("a"), "");
  EXPECT_THAT(TurnedAwayNow(), IsEmpty()) << "it is told once";
  EXPECT_EQ(ComeTo("b"), "");
  EXPECT_EQ(roster_.StateOf(2), NodeState::kRegistered);
}

TEST_F(AvoidedHostTest, ItIsTakenAgainAfterThePeriod) {
  LoseTwice();
  EXPECT_NE(ComeTo("a"), "");
  Pass(seconds(54));
  EXPECT_NE(ComeTo("a"), "");
  Pass(seconds(1));
  EXPECT_EQ(ComeTo("a"), "");
  EXPECT_THAT(TurnedAwayNow(), IsEmpty());
}

TEST_F(AvoidedHostTest, WithNoOtherHostItIsTaken) {
  Begin(2, {"s", "a", "a", "a"});
  LoseTwice();
  EXPECT_EQ(ComeTo("a"), "") << "a server's host is none for nodes that train";
}

TEST_F(AvoidedHostTest, WhereTheOtherHostsAreAvoidedTooItIsTaken) {
  LoseTwice();
  EXPECT_EQ(ComeTo("b"), "");
  roster_.Fail(2, Killed(), now_);
  now_ += seconds(5);
  EXPECT_EQ(ComeTo("b"), "");
  roster_.Fail(2, Killed(), now_);
  EXPECT_EQ(ComeTo("c"), "") << "it is not known yet, and no node was lost there";
  roster_.Fail(2, Killed(), now_);
  EXPECT_EQ(ComeTo("a"), "");
}

TEST_F(AvoidedHostTest, NoneIsAvoidedWhereTheUserDoesNotWantIt) {
  Begin(0, {"s", "a", "a", "b"});
  for (int loss = 0; loss < 15; ++loss) {
    roster_.Fail(2, Killed(), now_);
    EXPECT_EQ(ComeTo("a"), "");
  }
}

TEST_F(AvoidedHostTest, WhatSparkHadAnnouncedIsNotTheHostsFault) {
  for (int loss = 0; loss < 3; ++loss) {
    roster_.Leave({.node_id = 2, .reason = "preempted"}, now_);
    roster_.ConnectionLost(2, now_);
    EXPECT_EQ(ComeTo("a"), "") << loss;
  }
}

TEST_F(AvoidedHostTest, AnErrorOfTheProgramIsNotTheHostsFault) {
  roster_.Fail(2, Killed(), now_);
  for (int loss = 0; loss < 3; ++loss) {
    EXPECT_EQ(ComeTo("a"), "") << loss;
    now_ += seconds(5);
    // The others do without a node that fails while it joins. Where they are fed, it says so
    // itself.
    FailureReport error = Killed();
    error.traceback = "Traceback: ...";
    error.lost = loss % 2 == 0;
    roster_.Fail(2, error, now_);
    EXPECT_EQ(roster_.StateOf(2), NodeState::kLost);
  }
}

TEST_F(AvoidedHostTest, WhatNoOtherHostHasTakenInAWhileIsTaken) {
  Begin(2, {"s", "a", "a", "b"}, seconds(3600));
  LoseTwice();
  Pass(seconds(300));
  EXPECT_NE(ComeTo("a"), "") << "it comes for the first time";
  EXPECT_THAT(TurnedAwayNow(), ElementsAre("2 a"));
  Pass(seconds(119));
  EXPECT_NE(ComeTo("a"), "");
  Pass(seconds(1));
  EXPECT_EQ(ComeTo("a"), "") << "the other host may have no room";
}

TEST_F(AvoidedHostTest, BelowTheMinimumOtherHostsHaveAWhile) {
  LoseTwice();
  roster_.Fail(1, Killed(), now_);
  EXPECT_NE(ComeTo("a"), "");
  Pass(seconds(14));
  EXPECT_NE(ComeTo("a"), "");
  Pass(seconds(1));
  EXPECT_EQ(ComeTo("a"), "") << "a quarter of the time after which the cluster fails";
  EXPECT_EQ(roster_.failure(), std::nullopt);
}

TEST_F(AvoidedHostTest, ARefusalForAnotherReasonTurnsNobodyAway) {
  LoseTwice();
  EXPECT_EQ(ComeTo("b"), "");
  EXPECT_THAT(ComeTo("a"), HasSubstr("has registered before"));
  EXPECT_THAT(TurnedAwayNow(), IsEmpty());
}

}  // namespace
}  // namespace tfos::control
