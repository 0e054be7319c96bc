#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_ROSTER_FIXTURE_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_ROSTER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "control/coordinator/roster/roles.h"
#include "control/coordinator/roster/roster.h"

// What the tests of the roster share.
namespace tfos::control {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using enum NodeState;

/// The effects in a form that is easy to compare: "driver node 0 running", "agent 1 stop", ...
inline std::vector<std::string> Words(const Effects& effects) {
  std::vector<std::string> words;
  for (const Effect& effect : effects) {
    if (const auto* tell = std::get_if<TellDriver>(&effect)) {
      std::visit(
          [&](const auto& event) {
            using Event = std::decay_t<decltype(event)>;
            if constexpr (std::is_same_v<Event, NodeChanged>) {
              words.push_back("driver node " + std::to_string(event.node.node_id) + " " +
                              std::string(NodeStateName(event.node.state)));
            } else if constexpr (!std::is_same_v<Event, UnknownMessage>) {
              words.push_back("driver " + std::string(Event::kType));
            }
          },
          tell->event);
    } else if (const auto* command = std::get_if<TellAgent>(&effect)) {
      std::visit(
          [&, node_id = command->node_id](const auto& message) {
            using Command = std::decay_t<decltype(message)>;
            if constexpr (!std::is_same_v<Command, UnknownMessage>) {
              words.push_back("agent " + std::to_string(node_id) + " " +
                              std::string(Command::kType));
            }
          },
          command->command);
    } else if (const auto* lost = std::get_if<Disconnect>(&effect)) {
      words.push_back("disconnect " + std::to_string(lost->node_id));
    } else if (const auto* ask = std::get_if<AskStacks>(&effect)) {
      words.push_back("stacks of " + std::to_string(ask->node_id));
    } else {
      words.push_back("publish");
    }
  }
  return words;
}

/// Three nodes: ps:0 (a service), worker:0, worker:1.
class RosterTest : public testing::Test {
 protected:
  RosterTest() : roster_(Options(), clock_.Now()) {}

  static RosterOptions Options() {
    RosterOptions options;
    options.cluster_id = "c";
    const std::vector<RoleCount> counts = {{.job = "ps", .count = 1},
                                           {.job = "worker", .count = 2}};
    const std::vector<std::string> services = {"ps"};
    options.roles = *AssignRoles(counts, services);
    options.tensorboard_node = 1;
    options.registration_timeout = seconds(60);
    options.start_timeout = seconds(30);
    options.heartbeat_timeout = seconds(10);
    options.coordinator_address = "10.0.0.5:7077";
    return options;
  }

  static Register Registration(int node_id) {
    Register message;
    message.node_id = node_id;
    message.host = "h" + std::to_string(node_id);
    message.address = "10.0.0.1" + std::to_string(node_id);
    message.port = 2222;
    message.agent_pid = 100 + node_id;
    message.executor_id = std::to_string(node_id);
    return message;
  }

  static StateReport State(NodeState state, std::string detail = "") {
    StateReport report;
    report.state = state;
    report.detail = std::move(detail);
    return report;
  }

  static FailureReport Report(std::string message) {
    return {.step = "run map_fun", .message = std::move(message), .traceback = {}, .log_tail = {}};
  }

  static FailureReport Loss(std::string message) {
    FailureReport report = Report(std::move(message));
    report.lost = true;
    return report;
  }

  /// The cluster may lose so many nodes.
  void Bear(int losses) {
    RosterOptions options = Options();
    options.max_lost_nodes = losses;
    roster_ = Roster(options, clock_.Now());
  }

  Effects RegisterNode(int node_id) {
    auto effects = roster_.Register(Registration(node_id), clock_.Now());
    EXPECT_TRUE(effects.ok()) << effects.status().ToString();
    return effects.ok() ? *std::move(effects) : Effects();
  }

  void Form() {
    for (int i = 0; i < 3; ++i) RegisterNode(i);
  }

  void RunAll() {
    Form();
    for (int i = 0; i < 3; ++i) roster_.SetState(i, State(kRunning), clock_.Now());
  }

  NodeState StateOf(int node_id) {
    return roster_.Nodes(clock_.Now())[static_cast<std::size_t>(node_id)].state;
  }

  ManualClock clock_;
  Roster roster_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_ROSTER_FIXTURE_H_
