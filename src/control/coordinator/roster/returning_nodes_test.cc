// Nodes that serve others, are lost, and come again: what the cluster makes of it.

#include <chrono>
#include <string>

#include "control/coordinator/roster/roster.h"
#include "control/coordinator/roster/roster_fixture.h"

namespace tfos::control {
namespace {

/// One of the three nodes, ps:0, may be lost, and has a minute to come again.
class ReturningNodesTest : public RosterTest {
 protected:
  ReturningNodesTest() {
    RosterOptions options = Options();
    options.returning_nodes = 1;
    options.min_nodes_timeout = seconds(60);
    options.restarts = 13;
    roster_ = Roster(options, clock_.Now());
    RunAll();
  }

  Effects LoseServer() {
    Effects effects = roster_.Fail(0, Loss("killed by signal 9"), clock_.Now());
    const Effects left = roster_.ConnectionLost(0, clock_.Now());
    effects.insert(effects.end(), left.begin(), left.end());
    return effects;
  }

  Result<Effects> ServerComes() {
    Register registration = Registration(0);
    registration.host = "other";
    registration.address = "10.0.0.99";
    registration.tensor_port = 4444;
    return roster_.Register(registration, clock_.Now());
  }

  /// Time, in which the workers tell that they are there.
  Effects Pass(seconds time) {
    clock_.Advance(time);
    for (const int node : {0, 1, 2}) roster_.RecordHeartbeat(node, {}, clock_.Now());
    return roster_.Tick(clock_.Now());
  }
};

TEST_F(ReturningNodesTest, TheOthersGoOnAndHearWhereItIs) {
  EXPECT_THAT(Words(LoseServer()), ElementsAre("driver node 0 lost"));
  EXPECT_FALSE(roster_.failure().has_value());
  EXPECT_FALSE(roster_.finished());
  EXPECT_FALSE(roster_.IsTaken(0));
  const auto came = ServerComes();
  ASSERT_TRUE(came.ok()) << came.status().ToString();
  EXPECT_THAT(Words(*came), ElementsAre("driver node 0 registered", "publish"));
  EXPECT_TRUE(roster_.Start(0).joins) << "it must not take the first values that it is offered";
  EXPECT_FALSE(roster_.Start(1).joins);
  const Effects runs = roster_.SetState(0, State(kRunning), clock_.Now());
  EXPECT_THAT(Words(runs), ElementsAre("driver node 0 running", "agent 1 moved", "agent 2 moved"));
  const auto& moved = std::get<NodeMoved>(std::get<TellAgent>(runs[1]).command);
  EXPECT_EQ(moved.node_id, 0);
  EXPECT_EQ(moved.name, "ps:0 on host other");
  EXPECT_EQ(moved.address, "10.0.0.99");
  EXPECT_EQ(moved.tensor_port, 4444);
  EXPECT_THAT(Words(roster_.SetState(0, State(kRunning, "says it again"), clock_.Now())),
              ElementsAre("driver node 0 running"))
      << "once";
  EXPECT_THAT(Pass(seconds(100)), IsEmpty()) << "it has come";
}

TEST_F(ReturningNodesTest, AHostThatIsGoneIsALossToo) {
  clock_.Advance(seconds(11));
  for (const int node : {1, 2}) roster_.RecordHeartbeat(node, {}, clock_.Now());
  EXPECT_THAT(Words(roster_.Tick(clock_.Now())), ElementsAre("disconnect 0", "driver node 0 lost"));
  EXPECT_TRUE(ServerComes().ok());
}

TEST_F(ReturningNodesTest, OneThatDoesNotComeInTimeEndsTheCluster) {
  LoseServer();
  EXPECT_THAT(Pass(seconds(59)), IsEmpty());
  EXPECT_THAT(Words(Pass(seconds(1))), testing::Contains("driver failed"));
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_EQ(roster_.failure()->node_id, 0);
  EXPECT_THAT(roster_.failure()->report.message, HasSubstr("killed by signal 9"));
  EXPECT_THAT(roster_.failure()->report.message,
              HasSubstr("did not come again within 60 s (spark.tfos.minNodes.timeout)"));
}

TEST_F(ReturningNodesTest, OneThatIsLostAgainAndAgainEndsTheCluster) {
  for (int loss = 0; loss < 13; ++loss) {
    LoseServer();
    ASSERT_FALSE(roster_.failure().has_value()) << loss;
    ASSERT_TRUE(ServerComes().ok());
    roster_.SetState(0, State(kRunning), clock_.Now());
  }
  LoseServer();
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_THAT(
      roster_.failure()->report.message,
      HasSubstr("killed by signal 9. It is given up, after spark.tfos.restarts=13 restarts"));
}

TEST_F(ReturningNodesTest, OneThatIsLostNowAndThenGoesOnComingAgain) {
  for (int loss = 0; loss < 20; ++loss) {
    LoseServer();
    ASSERT_FALSE(roster_.failure().has_value()) << loss;
    ASSERT_TRUE(ServerComes().ok());
    roster_.SetState(0, State(kRunning), clock_.Now());
    for (int minutes = 0; minutes < 300; ++minutes) Pass(seconds(1));
  }
}

TEST_F(ReturningNodesTest, NobodyWaitsForItOnceTheProgramsHaveEnded) {
  for (const int node : {1, 2}) {
    roster_.Finish(node, clock_.Now());
    roster_.ConnectionLost(node, clock_.Now());
  }
  LoseServer();
  EXPECT_THAT(Pass(seconds(100)), IsEmpty());
  const auto refused = ServerComes();
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().ToString(), HasSubstr("too late"));
  EXPECT_FALSE(roster_.failure().has_value());
  EXPECT_TRUE(roster_.finished());
}

TEST_F(ReturningNodesTest, ItComesAgainAfterTheEndOfTheFeed) {
  roster_.EndFeed({}, clock_.Now());
  LoseServer();
  EXPECT_TRUE(ServerComes().ok()) << "the nodes push what they have yet";
}

TEST_F(ReturningNodesTest, AProgramThatFailsThereIsAFailure) {
  roster_.Fail(0, Report("serve parameters: no memory"), clock_.Now());
  EXPECT_TRUE(roster_.failure().has_value());
}

TEST_F(ReturningNodesTest, TheOthersAreNotOfThem) {
  roster_.Fail(1, Loss("killed by signal 9"), clock_.Now());
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_EQ(roster_.failure()->node_id, 1);
}

TEST_F(RosterTest, WithoutThatTheLossOfAServiceEndsTheCluster) {
  RunAll();
  roster_.Fail(0, Loss("killed by signal 9"), clock_.Now());
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_EQ(roster_.failure()->node_id, 0);
}

}  // namespace
}  // namespace tfos::control
