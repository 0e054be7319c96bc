#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  static RosterOptions Options() {
    RosterOptions options;
    options.cluster_id = "c";
    options.roles = {{.job_name = "ps", .task_index = 0, .service = true}};
    for (int i = 0; i < 3; ++i) {
      options.roles.push_back({.job_name = "worker", .task_index = i, .service = false});
    }
    options.min_nodes = 2;
    return options;
  }

  ElasticRosterTest() {
    for (int node = 0; node < 4; ++node) {
      Register registration;
      registration.node_id = node;
      registration.host = fmt::format("h{}", node);
      registration.address = fmt::format("10.0.0.{}", node);
      registration.tensor_port = 2000 + node;
      EXPECT_TRUE(roster_.Register(registration, now_).ok());
    }
    for (int node = 0; node < 4; ++node) roster_.SetState(node, Running(), now_);
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
  EXPECT_THAT(Told(roster_.Fail(1, Killed(), now_)), IsEmpty());
  ASSERT_TRUE(roster_.failure().has_value());
  EXPECT_EQ(roster_.failure()->node_id, 1);
}

TEST_F(ElasticRosterTest, AnErrorOfTheProgramIsAFailure) {
  FailureReport report;
  report.step = "run the program";
  report.message = "ValueError: 1";
  EXPECT_THAT(Told(roster_.Fail(2, report, now_)), IsEmpty());
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

TEST_F(ElasticRosterTest, ALostNodeSaysNothingMore) {
  roster_.Fail(2, Killed(), now_);
  EXPECT_THAT(Told(roster_.RecordReady(2, Ready(1, 5), now_)), IsEmpty());
}

TEST_F(ElasticRosterTest, AStopEndsIt) {
  roster_.StopAll({.reason = "enough"}, now_);
  EXPECT_THAT(Told(roster_.RecordReady(1, Ready(1, 5), now_)), IsEmpty());
}

}  // namespace
}  // namespace tfos::control
