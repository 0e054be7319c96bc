#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "control/coordinator/roster/elastic_roster_fixture.h"

namespace tfos::control {
namespace {

/// Where lost nodes may come again.
class LateNodesTest : public ElasticRosterTest {
 protected:
  LateNodesTest() { Begin(4); }

  void Begin(int nodes) {
    roster_ = Roster(Options(/*late_nodes=*/true), now_);
    Form(nodes);
  }

  static GroupReady Joins() {
    return {.generation = 1, .committed = 0, .leaves = false, .reason = "it joins", .lacks = 2};
  }
  static GroupReady Admits(int generation, std::int64_t committed) {
    GroupReady ready = Ready(generation, committed);
    ready.admits = true;
    return ready;
  }
  /// An error of the program, which the others do not notice.
  static FailureReport PassingOver(std::string message) {
    return {.step = "run the program",
            .message = std::move(message),
            .traceback = "line 7",
            .log_tail = {},
            .lost = true};
  }
  /// What the driver is told of nodes that wait.
  static std::vector<std::string> Waits(const Effects& effects) {
    std::vector<std::string> waits;
    for (const Effect& effect : effects) {
      const auto* tell = std::get_if<TellDriver>(&effect);
      const auto* wait = tell == nullptr ? nullptr : std::get_if<TrainingWaits>(&tell->event);
      if (wait != nullptr) waits.push_back(wait->reason);
    }
    return waits;
  }
};

TEST_F(LateNodesTest, ALostNodeComesAgainAndIsLetInAfterAStep) {
  roster_.Fail(2, Killed(), now_);
  for (const int node : {1, 3}) roster_.RecordReady(node, Ready(1, 17), now_);
  const auto came = Come(2, "other");
  ASSERT_TRUE(came.ok()) << came.status().ToString();
  const auto starts = std::ranges::count_if(*came, [](const Effect& effect) {
    const auto* publish = std::get_if<PublishStart>(&effect);
    return publish != nullptr && publish->node_id == 2;
  });
  EXPECT_EQ(starts, 1) << "it starts at once";
  EXPECT_TRUE(roster_.Start(2).joins);
  EXPECT_FALSE(roster_.Start(1).joins);
  roster_.SetState(2, Running(), now_);
  EXPECT_THAT(Told(roster_.RecordReady(2, Joins(), now_)), ElementsAre("1 meet", "3 meet"));
  EXPECT_THAT(Told(roster_.RecordReady(1, Admits(2, 20), now_)),
              ElementsAre("1 regroup 2", "3 regroup 2"));
  const std::string group = "group 2 after 20 of 0@10.0.0.1:2001 1@10.0.0.2:2002 2@10.0.0.3:2003";
  EXPECT_THAT(Told(roster_.RecordReady(3, Admits(2, 20), now_)),
              ElementsAre("1 " + group, "2 " + group, "3 " + group));
  EXPECT_FALSE(roster_.Start(2).joins);
  // From here on it is one of them.
  EXPECT_THAT(Told(roster_.Fail(2, Killed(), now_)), ElementsAre("1 regroup 3", "3 regroup 3"));
}

TEST_F(LateNodesTest, ALivingNodeIsNotReplaced) {
  const auto refused = Come(2);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("has registered before and is running"));
}

TEST_F(LateNodesTest, ANodeComesAgainAsOftenAsItMay) {
  for (const int restarts : {1, RosterOptions{}.restarts}) {
    RosterOptions options = Options(/*late_nodes=*/true);
    options.restarts = restarts;
    roster_ = Roster(options, now_);
    Form(4);
    for (int loss = 0; loss <= restarts; ++loss) {
      roster_.Fail(2, Killed(), now_);
      ASSERT_EQ(Come(2).ok(), loss < restarts) << loss << " of " << restarts;
    }
    EXPECT_THAT(std::string(Come(2).status().message()), HasSubstr("was given up: "));
    EXPECT_FALSE(roster_.failure().has_value()) << "the others train on";
    EXPECT_THAT(roster_.Nodes(now_)[2].detail,
                HasSubstr(fmt::format("It is given up, after spark.tfos.restarts={} restarts "
                                      "within 3600 s (spark.tfos.hosts.lossPeriod)",
                                      restarts)));
  }
}

TEST_F(LateNodesTest, LossesOfLongAgoAreForgotten) {
  for (int loss = 0; loss < 20; ++loss) {
    roster_.Fail(2, Killed(), now_);
    ASSERT_TRUE(Come(2).ok()) << loss;
    for (const int node : {1, 2, 3}) roster_.SetState(node, Running(), now_);
    Pass(seconds(300));
  }
}

TEST_F(LateNodesTest, ANodeThatTheOthersCannotReachIsGivenUp) {
  roster_.Fail(2, Killed(), now_);
  for (const int node : {1, 3}) roster_.RecordReady(node, Ready(1, 17), now_);
  ASSERT_TRUE(Come(2).ok());
  roster_.SetState(2, Running(), now_);
  roster_.RecordReady(2, Joins(), now_);
  for (const int node : {1, 3}) roster_.RecordReady(node, Admits(2, 20), now_);
  const auto tries_again = [](int generation) {
    GroupReady ready = Ready(generation, 0);
    ready.lacks = 2;
    return ready;
  };
  Effects effects;
  for (int generation = 3; generation < 6; ++generation) {
    ASSERT_FALSE(IsFinal(roster_.StateOf(2))) << generation;
    for (const int node : {1, 3}) roster_.RecordReady(node, Ready(generation, 20), now_);
    effects = roster_.RecordReady(2, tries_again(generation), now_);
  }
  EXPECT_THAT(Told(effects),
              ElementsAre(HasSubstr("2 stop: the nodes that train could not connect with worker:1"),
                          "1 regroup 6", "3 regroup 6"));
  EXPECT_EQ(roster_.StateOf(2), NodeState::kLost);
  EXPECT_FALSE(roster_.failure().has_value());
  EXPECT_THAT(std::string(Come(2).status().message()), HasSubstr("could not connect with"));
  roster_.RecordReady(1, Ready(6, 20), now_);
  EXPECT_THAT(Told(roster_.RecordReady(3, Ready(6, 20), now_)),
              ElementsAre("1 group 6 after 20 of 0@10.0.0.1:2001 2@10.0.0.3:2003",
                          "3 group 6 after 20 of 0@10.0.0.1:2001 2@10.0.0.3:2003"));
}

TEST_F(LateNodesTest, WhatADeadProcessReportedIsNotItsSuccessors) {
  roster_.RecordHeartbeat(2, {.metrics = {{"seconds_without_answer", 29.0}}}, now_);
  EXPECT_EQ(roster_.Snapshot(now_).nodes[2].detail, "no sign of life for 29 s");
  roster_.Fail(2, Killed(), now_);
  EXPECT_FALSE(roster_.Snapshot(now_).metrics["2"].empty());
  ASSERT_TRUE(Come(2).ok());
  EXPECT_TRUE(roster_.Snapshot(now_).metrics["2"].empty());
}

TEST_F(LateNodesTest, WhatADeadProcessCountedOfItsFeedStaysDone) {
  const auto counts = [](std::int64_t rows) -> Metrics {
    return {{"rows", rows}, {"items_unread", std::int64_t{3}}, {"step", rows}, {"loss", 0.5}};
  };
  StateReport fed = Running();
  fed.feed.emplace();
  roster_.SetState(2, fed, now_);
  for (const std::int64_t rows : {40, 25}) {
    roster_.RecordHeartbeat(2, {.metrics = counts(rows)}, now_);
    roster_.Fail(2, Killed(), now_);
    ASSERT_TRUE(Come(2).ok());
    roster_.SetState(2, fed, now_);
  }
  const Metrics before = {{"rows", std::int64_t{65}}, {"items_unread", std::int64_t{6}}};
  EXPECT_EQ(roster_.Snapshot(now_).metrics_before["2"], before);
  EXPECT_EQ(*roster_.Views()[2].before, before);
  EXPECT_TRUE(roster_.Views()[2].came_late);
  EXPECT_FALSE(roster_.Views()[1].came_late);
  EXPECT_EQ(roster_.Snapshot(now_).metrics_before.size(), 1u) << "of the others there is nothing";
}

TEST_F(LateNodesTest, WithoutAFeedRowsAreTheProgramsOwn) {
  roster_.RecordHeartbeat(2, {.metrics = {{"rows", std::int64_t{40}}}}, now_);
  roster_.Fail(2, Killed(), now_);
  ASSERT_TRUE(Come(2).ok());
  EXPECT_TRUE(roster_.Snapshot(now_).metrics_before.empty());
}

TEST_F(LateNodesTest, AnErrorBeforeItTrainsIsItsOwn) {
  roster_.Fail(2, Killed(), now_);
  ASSERT_TRUE(Come(2).ok());
  FailureReport report;
  report.message = "ValueError: the file is there already";
  EXPECT_THAT(Told(roster_.Fail(2, report, now_)), IsEmpty());
  EXPECT_FALSE(roster_.failure().has_value());
}

TEST_F(LateNodesTest, TheOthersGoOnWithoutAMemberWhoseErrorWasNotInAStepOfTheirs) {
  EXPECT_THAT(Told(roster_.Fail(2, PassingOver("ValueError: 1"), now_)),
              ElementsAre("1 regroup 1", "3 regroup 1"));
  EXPECT_FALSE(roster_.failure().has_value());
  EXPECT_EQ(roster_.StateOf(2), NodeState::kLost);
  EXPECT_EQ(roster_.Nodes(now_)[2].detail, "ValueError: 1");
  EXPECT_TRUE(Come(2).ok());
}

TEST_F(LateNodesTest, AnErrorOfAllNodesEndsTheClusterWithTheFirst) {
  for (const int node : {2, 1}) {
    roster_.Fail(node, PassingOver("ValueError: 1"), now_);
    ASSERT_FALSE(roster_.failure().has_value());
    ASSERT_TRUE(Come(node).ok()) << "it waits for those that have something to give";
  }
  roster_.Fail(3, PassingOver("ValueError: 1"), now_);
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_EQ(roster_.failure()->node_id, 2);
  EXPECT_EQ(roster_.failure()->report.message,
            "ValueError: 1. worker:2 (node 3 on h3) failed so, too");
  EXPECT_EQ(roster_.failure()->report.traceback, "line 7");
  EXPECT_FALSE(roster_.failure()->report.lost) << "the program is to blame";
}

TEST_F(LateNodesTest, AnotherErrorOfTheLastNodeIsItsOwn) {
  for (const int node : {2, 1}) roster_.Fail(node, PassingOver("ValueError: 1"), now_);
  roster_.Fail(3, PassingOver("ValueError: 2"), now_);
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_EQ(roster_.failure()->node_id, 3);
  EXPECT_EQ(roster_.failure()->report.message, "ValueError: 2");
}

TEST_F(LateNodesTest, AnErrorOfLongAgoIsForgotten) {
  roster_.Fail(2, PassingOver("ValueError: 1"), now_);
  Pass(seconds(3600));
  for (const int node : {1, 3}) roster_.Fail(node, PassingOver("ValueError: 1"), now_);
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_EQ(roster_.failure()->node_id, 1);
}

TEST_F(LateNodesTest, ItsStartIsLateFromItsOwnRegistrationOn) {
  roster_.Fail(2, Killed(), now_);
  now_ += seconds(700);
  for (const int node : {0, 1, 3}) roster_.RecordHeartbeat(node, {}, now_);
  ASSERT_TRUE(Come(2).ok());
  roster_.Tick(now_);
  EXPECT_TRUE(Come(2).status().message().find("registered before and is registered") !=
              std::string_view::npos);
  EXPECT_THAT(Told(Pass(seconds(601))), ElementsAre(HasSubstr("2 stop: worker:1")));
  EXPECT_FALSE(roster_.failure().has_value()) << "the others do without it";
}

TEST_F(LateNodesTest, BelowTheMinimumTheyWaitAndThenTheClusterFails) {
  roster_.Fail(2, Killed(), now_);
  const std::string wait =
      "the others wait for worker:0 on host h1 to end its step; 1 of at least 2 nodes are there: "
      "the cluster fails 60 s after there were fewer";
  EXPECT_THAT(Waits(roster_.Fail(3, Killed(), now_)), ElementsAre(wait));
  EXPECT_FALSE(roster_.failure().has_value());
  EXPECT_THAT(Told(roster_.RecordReady(1, Ready(1, 3), now_)),
              ElementsAre("1 group 1 after 3 of 0@10.0.0.1:2001", "1 meet"));
  roster_.RecordReady(1, Admits(2, 4), now_);
  for (int second = 0; second < 59; second += 5) {
    now_ += seconds(5);
    for (const int node : {0, 1}) roster_.RecordHeartbeat(node, {}, now_);
    if (second < 55) roster_.Tick(now_);
    ASSERT_FALSE(roster_.failure().has_value());
  }
  roster_.Tick(now_);
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_EQ(roster_.failure()->node_id, 3) << "the last that was lost";
  EXPECT_THAT(roster_.failure()->report.message,
              HasSubstr("1 of at least 2 nodes were there, and no other came within 60 s "
                        "(spark.tfos.minNodes.timeout)"));
}

TEST_F(LateNodesTest, BelowTheMinimumAnotherMayComeInTime) {
  for (const int node : {2, 3}) roster_.Fail(node, Killed(), now_);
  roster_.RecordReady(1, Ready(1, 3), now_);
  roster_.RecordReady(1, Admits(2, 4), now_);
  ASSERT_TRUE(Come(3).ok());
  const Effects effects = roster_.RecordReady(3, Joins(), now_);
  EXPECT_THAT(Told(effects), ElementsAre("1 group 2 after 4 of 0@10.0.0.1:2001 2@10.0.0.3:2003",
                                         "3 group 2 after 4 of 0@10.0.0.1:2001 2@10.0.0.3:2003"));
  EXPECT_THAT(Waits(effects), ElementsAre(""));
  Pass(seconds(61));
  EXPECT_FALSE(roster_.failure().has_value());
}

TEST_F(LateNodesTest, WhoComesTooLateIsStoppedOrRefused) {
  roster_.Fail(2, Killed(), now_);
  for (const int node : {1, 3}) roster_.RecordReady(node, Ready(1, 3), now_);
  ASSERT_TRUE(Come(2).ok());
  roster_.SetState(2, Running(), now_);
  roster_.Finish(1, now_);
  EXPECT_THAT(Told(roster_.Finish(3, now_)), IsEmpty()) << "it may do something else";
  EXPECT_THAT(Told(roster_.RecordReady(2, Joins(), now_)),
              ElementsAre("2 stop: it came too late: the others have ended"));
  roster_.Finish(2, now_);
  EXPECT_EQ(roster_.StateOf(2), NodeState::kStopped) << "its program has not returned";
  EXPECT_FALSE(roster_.failure().has_value());
}

TEST_F(LateNodesTest, TheClusterFormsWithTheMinimumAndGrows) {
  Begin(3);
  EXPECT_THAT(Told(roster_.Tick(now_)), IsEmpty());
  const Effects formed = Pass(seconds(15));
  const auto published = [](const Effects& effects) {
    return std::ranges::count_if(
        effects, [](const Effect& effect) { return std::holds_alternative<PublishStart>(effect); });
  };
  EXPECT_EQ(published(formed), 1);
  const auto came = Come(3);
  ASSERT_TRUE(came.ok());
  EXPECT_EQ(published(*came), 1);
  EXPECT_TRUE(roster_.Start(3).joins);
  EXPECT_THAT(Told(roster_.RecordReady(3, Joins(), now_)), ElementsAre("1 meet", "2 meet"));
}

/// Where Spark feeds the nodes, too: others come in before an epoch.
class FedLateNodesTest : public LateNodesTest {
 protected:
  static bool Begins(const Effects& effects) {
    return std::ranges::any_of(effects, [](const Effect& effect) {
      const auto* tell = std::get_if<TellDriver>(&effect);
      return tell != nullptr && std::holds_alternative<EpochBegins>(tell->event);
    });
  }
  Effects Begin(int epoch) {
    return roster_.BeginEpoch({.queue = "input", .epoch = epoch, .number = 1}, now_);
  }
  Effects End(int epoch) { return roster_.EndEpoch({.queue = "input", .epoch = epoch}, now_); }
  Effects Reads(int node, int epoch) {
    return roster_.RecordSteps(node, {.queue = "input", .epoch = epoch}, now_);
  }
  /// Those that hear of the steps of an epoch.
  static std::vector<int> InStep(const Effects& effects) {
    std::vector<int> nodes;
    for (const Effect& effect : effects) {
      const auto* tell = std::get_if<TellAgent>(&effect);
      if (tell == nullptr || !std::holds_alternative<StepTickets>(tell->command)) continue;
      nodes.push_back(tell->node_id);
    }
    return nodes;
  }
  /// Node 2 is lost in epoch 0, and another waits in its place.
  void ComeAgain() {
    EXPECT_TRUE(Begins(Begin(0)));
    roster_.Fail(2, Killed(), now_);
    for (const int node : {1, 3}) roster_.RecordReady(node, Ready(1, 17), now_);
    ASSERT_TRUE(Come(2).ok());
    roster_.SetState(2, Running(), now_);
    EXPECT_THAT(Told(roster_.RecordReady(2, Joins(), now_)), IsEmpty()) << "not in this epoch";
    EXPECT_TRUE(roster_.Nodes(now_)[2].joins);
  }
};

TEST_F(FedLateNodesTest, ANodeComesInBeforeTheNextEpoch) {
  ComeAgain();
  EXPECT_THAT(InStep(Reads(1, 0)), ElementsAre(1, 3)) << "the newcomer has no part in it";
  EXPECT_THAT(Told(End(0)), ElementsAre("1 meet", "3 meet"));
  EXPECT_FALSE(Begins(Begin(1))) << "one waits to come in";
  for (const int node : {1, 3}) EXPECT_FALSE(Begins(Reads(node, 0))) << "the last rows of epoch 0";
  roster_.RecordReady(1, Admits(2, 20), now_);
  const Effects formed = roster_.RecordReady(3, Admits(2, 20), now_);
  EXPECT_TRUE(Begins(formed));
  EXPECT_FALSE(roster_.Nodes(now_)[2].joins);
  EXPECT_THAT(InStep(Reads(1, 1)), ElementsAre(1, 2, 3));
}

TEST_F(FedLateNodesTest, NobodyWaitsForNodesThatLetNobodyIn) {
  ComeAgain();
  End(0);
  EXPECT_FALSE(Begins(Begin(1)));
  EXPECT_TRUE(Begins(Reads(3, 1))) << "it reads the epoch: it has met nobody";
  End(1);
  EXPECT_FALSE(Begins(Begin(2)));
  EXPECT_TRUE(Begins(Pass(std::chrono::minutes(10))));
  End(2);
  EXPECT_FALSE(Begins(Begin(3)));
  EXPECT_TRUE(Begins(roster_.Fail(2, Killed(), now_))) << "nobody waits any more";
}

TEST_F(FedLateNodesTest, OneThatWaitsWhenOthersHaveComeInIsNotWaitedFor) {
  ComeAgain();
  roster_.Fail(3, Killed(), now_);
  roster_.RecordReady(1, Ready(2, 18), now_);
  ASSERT_TRUE(Come(3).ok());
  End(0);
  roster_.RecordReady(1, Admits(3, 20), now_);
  roster_.RecordReady(3, Joins(), now_);
  EXPECT_TRUE(Begins(Begin(1))) << "the other one waits for its rows";
}

TEST_F(FedLateNodesTest, BelowTheMinimumTheNextEpochWaits) {
  Begin(0);
  for (const int node : {2, 3}) roster_.Fail(node, Killed(), now_);
  EXPECT_THAT(Told(roster_.RecordReady(1, Ready(1, 3), now_)),
              ElementsAre("1 group 1 after 3 of 0@10.0.0.1:2001"));
  Pass(seconds(61));
  EXPECT_FALSE(roster_.failure().has_value()) << "the epoch may last";
  EXPECT_THAT(Told(End(0)), ElementsAre("1 meet"));
  EXPECT_FALSE(Begins(Begin(1)));
  Pass(seconds(61));
  EXPECT_TRUE(roster_.failure().has_value());
}

TEST_F(FedLateNodesTest, WhoHasNotComeInWhenTheFeedEndsIsTooLate) {
  ComeAgain();
  EXPECT_THAT(Told(roster_.EndFeed({}, now_)),
              ElementsAre("2 stop: it came too late: no more rows will come"));
  roster_.Finish(2, now_);
  EXPECT_EQ(roster_.StateOf(2), NodeState::kStopped);
  roster_.Fail(3, Killed(), now_);
  EXPECT_THAT(std::string(Come(3).status().message()), HasSubstr("no more rows will come"));
}

TEST_F(LateNodesTest, NodesThatNeverCameEndWithTheOthers) {
  Begin(3);
  Pass(seconds(15));
  for (const int node : {1, 2}) roster_.Finish(node, now_);
  EXPECT_EQ(roster_.Nodes(now_)[3].state, NodeState::kLost);
  EXPECT_THAT(std::string(Come(3).status().message()), HasSubstr("comes too late"));
}

/// While the cluster still forms: node 3 has not come yet.
class FormingTest : public LateNodesTest {
 protected:
  FormingTest() {
    roster_ = Roster(Options(/*late_nodes=*/true), now_);
    for (const int node : {0, 1, 2}) EXPECT_TRUE(Come(node).ok());
  }
  static bool Forms(const Effects& effects) {
    return std::ranges::any_of(
        effects, [](const Effect& effect) { return std::holds_alternative<PublishStart>(effect); });
  }
};

TEST_F(FormingTest, ANodeThatIsLostComesAgain) {
  EXPECT_FALSE(Forms(roster_.ConnectionLost(2, now_)));
  EXPECT_EQ(roster_.StateOf(2), NodeState::kLost);
  EXPECT_FALSE(roster_.failure().has_value());
  EXPECT_FALSE(Forms(*Come(3))) << "it is waited for";
  EXPECT_TRUE(Forms(*Come(2, "other")));
  EXPECT_FALSE(roster_.Start(2).joins) << "it is there from the first generation on";
}

TEST_F(FormingTest, WithoutTheLostNodeThereMustBeEnough) {
  roster_.ConnectionLost(2, now_);
  EXPECT_FALSE(Forms(Pass(seconds(15)))) << "one of at least two";
  EXPECT_FALSE(Forms(*Come(3)));
  EXPECT_TRUE(Forms(Pass(seconds(15))));
  ASSERT_TRUE(Come(2).ok());
  EXPECT_TRUE(roster_.Start(2).joins);
}

TEST_F(FormingTest, ANodeWithoutHeartbeatsIsLostAlone) {
  now_ += seconds(10);
  for (const int node : {0, 1}) roster_.RecordHeartbeat(node, {}, now_);
  roster_.Tick(now_);
  EXPECT_EQ(roster_.StateOf(2), NodeState::kLost);
  EXPECT_FALSE(roster_.failure().has_value());
}

TEST_F(FormingTest, ALostServiceIsAFailure) {
  roster_.ConnectionLost(0, now_);
  EXPECT_TRUE(roster_.failure().has_value());
}

TEST_F(FormingTest, ANodeThatIsLostAgainAndAgainIsAFailure) {
  for (int loss = 0; loss < 16; ++loss) {
    roster_.ConnectionLost(2, now_);
    ASSERT_FALSE(roster_.failure().has_value()) << loss;
    ASSERT_EQ(Come(2).ok(), loss < 15) << loss;
  }
  EXPECT_THAT(std::string(Come(2).status().message()), HasSubstr("was given up: "));
}

TEST_F(FormingTest, ItGoesOnFormingAfterALossOfAll) {
  RosterOptions options = Options(/*late_nodes=*/true);
  options.roles.erase(options.roles.begin());  // Then all three train.
  roster_ = Roster(options, now_);
  for (const int node : {0, 1}) ASSERT_TRUE(Come(node).ok());
  for (const int node : {0, 1}) roster_.ConnectionLost(node, now_);
  EXPECT_FALSE(roster_.finished());
  EXPECT_FALSE(Forms(*Come(2)));
  for (const int node : {0, 1}) ASSERT_TRUE(Come(node).ok());
  EXPECT_FALSE(roster_.Start(1).joins);
}

TEST_F(FormingTest, WhoIsMissingInTheEndIsNamedWithItsLoss) {
  for (const int node : {1, 2}) roster_.ConnectionLost(node, now_);
  Pass(seconds(601));
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_THAT(roster_.failure()->report.message,
              ::testing::AllOf(HasSubstr("3 of 4 nodes did not register within 600 s"),
                               HasSubstr("worker:0 (node 1 on h1): lost for"),
                               HasSubstr("its agent vanished while it was registered")));
}

}  // namespace
}  // namespace tfos::control
