#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/format.h"
#include "control/coordinator/roster/roster.h"

namespace tfos::control {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A parameter server and three workers, of which two must stay.
class ElasticRosterTest : public ::testing::Test {
 protected:
  static RosterOptions Options(bool late_nodes = false) {
    RosterOptions options;
    options.cluster_id = "c";
    options.roles = {{.job_name = "ps", .task_index = 0, .service = true}};
    for (int i = 0; i < 3; ++i) {
      options.roles.push_back({.job_name = "worker", .task_index = i, .service = false});
    }
    options.min_nodes = 2;
    options.late_nodes = late_nodes;
    if (late_nodes) options.min_nodes_timeout = seconds(60);
    return options;
  }

  ElasticRosterTest() { Form(4); }

  void Form(int nodes) {
    for (int node = 0; node < nodes; ++node) EXPECT_TRUE(Come(node).ok());
    for (int node = 0; node < nodes; ++node) roster_.SetState(node, Running(), now_);
  }

  Result<Effects> Come(int node, const std::string& host = "h") {
    Register registration;
    registration.node_id = node;
    registration.host = fmt::format("{}{}", host, node);
    registration.address = fmt::format("10.0.0.{}", node);
    registration.tensor_port = 2000 + node;
    return roster_.Register(registration, now_);
  }

  static StateReport Running() {
    StateReport report;
    report.state = NodeState::kRunning;
    return report;
  }
  static FailureReport Killed() {
    FailureReport report;
    report.step = "run the node";
    report.message = "the node's process was killed by signal 9";
    report.lost = true;
    return report;
  }
  static GroupReady Ready(int generation, std::int64_t committed) {
    return {.generation = generation, .committed = committed, .leaves = false, .reason = "r"};
  }

  /// Whom it tells of generations, as "1 regroup 1" or "3 group 1 of 1 3".
  static std::vector<std::string> Told(const Effects& effects) {
    std::vector<std::string> told;
    for (const Effect& effect : effects) {
      const auto* tell = std::get_if<TellAgent>(&effect);
      if (tell == nullptr) continue;
      if (const auto* regroup = std::get_if<Regroup>(&tell->command)) {
        told.push_back(fmt::format("{} regroup {}", tell->node_id, regroup->generation));
      } else if (const auto* group = std::get_if<FormedGroup>(&tell->command)) {
        std::string text = fmt::format("{} group {} after {} of", tell->node_id, group->generation,
                                       group->committed);
        for (const GroupMember& member : group->members) {
          text += fmt::format(" {}@{}:{}", member.rank, member.address, member.port);
        }
        told.push_back(text);
      } else if (std::holds_alternative<Meet>(tell->command)) {
        told.push_back(fmt::format("{} meet", tell->node_id));
      } else if (const auto* none = std::get_if<NoGroup>(&tell->command)) {
        told.push_back(fmt::format("{} no group: {}", tell->node_id, none->reason));
      } else if (const auto* stop = std::get_if<Stop>(&tell->command)) {
        told.push_back(fmt::format("{} stop: {}", tell->node_id, stop->reason));
      }
    }
    return told;
  }

  Roster::TimePoint now_{seconds(100)};
  Roster roster_{Options(), now_};
};

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
  EXPECT_THAT(
      roster_.failure()->report.message,
      HasSubstr("killed by signal 9. 1 of at least 2 nodes that train are left, and none "
                "comes in place of a lost one: Spark feeds the nodes, or spark.tfos.lateNodes "
                "is false"));
}

TEST_F(ElasticRosterTest, AnErrorOfTheProgramIsAFailure) {
  FailureReport report;
  report.step = "run the program";
  report.message = "ValueError: 1";
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

TEST_F(LateNodesTest, ANodeThatIsLostAgainAndAgainIsRefusedInTheEnd) {
  for (int loss = 0; loss < 16; ++loss) {
    roster_.Fail(2, Killed(), now_);
    if (loss == 15) break;
    ASSERT_TRUE(Come(2).ok()) << loss;
  }
  const auto refused = Come(2);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("was given up: "));
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
  roster_.Fail(2, Killed(), now_);
  EXPECT_FALSE(roster_.Snapshot(now_).metrics["2"].empty());
  ASSERT_TRUE(Come(2).ok());
  EXPECT_TRUE(roster_.Snapshot(now_).metrics["2"].empty());
}

TEST_F(LateNodesTest, AnErrorBeforeItTrainsIsItsOwn) {
  roster_.Fail(2, Killed(), now_);
  ASSERT_TRUE(Come(2).ok());
  FailureReport report;
  report.message = "ValueError: the file is there already";
  EXPECT_THAT(Told(roster_.Fail(2, report, now_)), IsEmpty());
  EXPECT_FALSE(roster_.failure().has_value());
}

TEST_F(LateNodesTest, ItsStartIsLateFromItsOwnRegistrationOn) {
  roster_.Fail(2, Killed(), now_);
  now_ += seconds(700);
  for (const int node : {0, 1, 3}) roster_.RecordHeartbeat(node, {}, now_);
  ASSERT_TRUE(Come(2).ok());
  roster_.Tick(now_);
  EXPECT_TRUE(Come(2).status().message().find("registered before and is registered") !=
              std::string_view::npos);
  now_ += seconds(601);
  for (const int node : {0, 1, 2, 3}) roster_.RecordHeartbeat(node, {}, now_);
  EXPECT_THAT(Told(roster_.Tick(now_)), ElementsAre(HasSubstr("2 stop: worker:1")));
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
  now_ += seconds(61);
  for (const int node : {0, 1, 3}) roster_.RecordHeartbeat(node, {}, now_);
  roster_.Tick(now_);
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
  now_ += seconds(15);
  for (const int node : {0, 1, 2}) roster_.RecordHeartbeat(node, {}, now_);
  const auto published = [](const Effects& effects) {
    return std::ranges::count_if(
        effects, [](const Effect& effect) { return std::holds_alternative<PublishStart>(effect); });
  };
  EXPECT_EQ(published(roster_.Tick(now_)), 1);
  const auto came = Come(3);
  ASSERT_TRUE(came.ok());
  EXPECT_EQ(published(*came), 1);
  EXPECT_TRUE(roster_.Start(3).joins);
  EXPECT_THAT(Told(roster_.RecordReady(3, Joins(), now_)), ElementsAre("1 meet", "2 meet"));
}

TEST_F(LateNodesTest, NodesThatNeverCameEndWithTheOthers) {
  Begin(3);
  now_ += seconds(15);
  for (const int node : {0, 1, 2}) roster_.RecordHeartbeat(node, {}, now_);
  roster_.Tick(now_);
  for (const int node : {1, 2}) roster_.Finish(node, now_);
  EXPECT_EQ(roster_.Nodes(now_)[3].state, NodeState::kLost);
  EXPECT_THAT(std::string(Come(3).status().message()), HasSubstr("comes too late"));
}

}  // namespace
}  // namespace tfos::control
