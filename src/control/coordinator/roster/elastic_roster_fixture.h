#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_ELASTIC_ROSTER_FIXTURE_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_ELASTIC_ROSTER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/format.h"
#include "control/coordinator/roster/roster.h"

// What the tests of clusters that lose nodes and get others share.
namespace tfos::control {

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

  /// Time, in which those that are there tell so.
  Effects Pass(seconds time) {
    now_ += time;
    for (const int node : {0, 1, 2, 3}) roster_.RecordHeartbeat(node, {}, now_);
    return roster_.Tick(now_);
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

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_ELASTIC_ROSTER_FIXTURE_H_
