// A failure that names another node waits for that of the other.

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "control/coordinator/roster/node_words.h"
#include "control/coordinator/roster/roster_fixture.h"

namespace tfos::control {
namespace {

/// What worker:0, which is node 1, says of worker:1.
constexpr char kLostPeer[] = "all_reduce: the connection to worker:1 on host h2 has ended";

class HeldBackTest : public RosterTest {
 protected:
  HeldBackTest() {
    RunAll();
    EXPECT_THAT(Words(roster_.Fail(1, Error(kLostPeer), clock_.Now())),
                ElementsAre("driver node 1 failed"));
  }

  /// Of a program.
  static FailureReport Error(std::string message) {
    FailureReport report = Report(std::move(message));
    report.traceback = "File \"train.py\", line 7";
    return report;
  }

  std::vector<std::string> Pass(std::chrono::milliseconds time) {
    clock_.Advance(time);
    return Words(roster_.Tick(clock_.Now()));
  }
};

TEST_F(HeldBackTest, TheCauseComesBeforeTheErrorThatFollowsFromIt) {
  EXPECT_THAT(Pass(std::chrono::milliseconds(999)), IsEmpty());
  EXPECT_THAT(Words(roster_.Fail(2, Loss("killed by signal 9"), clock_.Now())),
              ElementsAre("driver node 2 failed", "driver failed", "agent 0 stop",
                          "driver node 0 draining", "agent 1 stop", "agent 2 stop"));
  EXPECT_EQ(roster_.failure()->node_id, 2);
  EXPECT_EQ(roster_.failure()->report.message, "killed by signal 9");
  EXPECT_FALSE(roster_.held_back_until().has_value());
}

TEST_F(HeldBackTest, AnAgentThatVanishesIsACauseToo) {
  roster_.ConnectionLost(2, clock_.Now());
  EXPECT_EQ(roster_.failure()->node_id, 2);
}

TEST_F(HeldBackTest, TheErrorOfTheProgramThatItNamesIsACauseToo) {
  roster_.Fail(2, Error("ValueError: seven"), clock_.Now());
  EXPECT_EQ(roster_.failure()->report.message, "ValueError: seven");
}

TEST_F(HeldBackTest, ACauseIsLookedForFromNodeToNode) {
  EXPECT_THAT(Words(roster_.Fail(2, Error("the connection to ps:0 has ended"), clock_.Now())),
              ElementsAre("driver node 2 failed"));
  roster_.Fail(0, Error("ValueError: seven"), clock_.Now());
  EXPECT_EQ(roster_.failure()->node_id, 0);
}

TEST_F(HeldBackTest, ItIsToldOnceNoCauseHasCome) {
  EXPECT_EQ(roster_.held_back_until(), clock_.Now() + seconds(1));
  // It says so of the node that has failed, and the other names nobody.
  for (const auto& [node, error] :
       {std::pair(2, "the connection to worker:0 has ended"), std::pair(0, "BrokenPipeError")}) {
    EXPECT_THAT(Words(roster_.Fail(node, Error(error), clock_.Now())),
                ElementsAre(fmt::format("driver node {} failed", node)));
  }
  EXPECT_THAT(Pass(seconds(1)), testing::Contains("driver failed"));
  EXPECT_EQ(roster_.failure()->node_id, 1);
  EXPECT_EQ(roster_.failure()->report.message, kLostPeer);
}

TEST_F(HeldBackTest, TheClusterHasNotEndedBefore) {
  for (const int node : {0, 2}) roster_.Finish(node, clock_.Now());
  for (const int node : {0, 1, 2}) {
    EXPECT_THAT(Words(roster_.ConnectionLost(node, clock_.Now())), IsEmpty());
  }
  EXPECT_THAT(Pass(seconds(1)), ElementsAre("driver failed", "driver finished"));
  EXPECT_EQ(roster_.failure()->node_id, 1);
}

TEST_F(HeldBackTest, ANodeIsNotStoppedBeforeItHasToldTheCause) {
  const Stop stop = {.reason = "shut down", .grace = seconds(1)};
  EXPECT_THAT(roster_.StopAll(stop, clock_.Now()), IsEmpty());
  EXPECT_THAT(Words(roster_.Fail(2, Loss("killed by signal 9"), clock_.Now())),
              testing::IsSupersetOf({"driver failed", "agent 0 stop"}));
  EXPECT_EQ(roster_.failure()->node_id, 2);
}

TEST_F(RosterTest, NothingIsHeldBackOnceTheClusterHasFailed) {
  RunAll();
  roster_.FailFromDriver({.node_id = -1, .report = Report("")}, clock_.Now());
  roster_.Fail(1, Report(kLostPeer), clock_.Now());
  EXPECT_FALSE(roster_.held_back_until().has_value());
}

TEST_F(HeldBackTest, WhatTheDriverSeesOfItFollows) {
  const DriverFailure job = {.node_id = -1, .report = Report("the job that feeds has failed")};
  EXPECT_THAT(roster_.FailFromDriver(job, clock_.Now()), IsEmpty());
  roster_.FailFromDriver({.node_id = 2, .report = Report("Container killed by YARN")},
                         clock_.Now());
  EXPECT_EQ(roster_.failure()->report.message, "Container killed by YARN");
}

TEST(NodeWordsTest, ANodeIsNamedByItsWholeName) {
  NodeInfo node;
  node.job_name = "worker";
  node.task_index = 1;
  for (const char* text : {"worker:1", "lost worker:1.", "(worker:1 on host h)",
                           "worker:12 and worker:1", "from /job:worker/replica:0/task:1:"}) {
    EXPECT_TRUE(Names(text, node)) << text;
  }
  for (const char* text : {"", "worker:12", "coworker:1", "my_worker:1", "worker:0", "worker 1",
                           "/job:worker/replica:0/task:10"}) {
    EXPECT_FALSE(Names(text, node)) << text;
  }
}

}  // namespace
}  // namespace tfos::control
