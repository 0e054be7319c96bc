#include "control/coordinator/roster/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "control/coordinator/roster/latest_metrics.h"
#include "control/coordinator/roster/step_ticket_office.h"

namespace tfos::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum NodeState;

TEST(TransitionTest, TableIsTheOneOfTheProtocol) {
  const std::vector<std::pair<NodeState, std::vector<NodeState>>> allowed = {
      {kExpected, {kRegistered, kLost}},
      {kStarting, {}},
      {kRegistered, {kRunning, kDraining, kDone, kFailed, kLost}},
      {kRunning, {kDraining, kDone, kFailed, kLost}},
      {kDraining, {kDone, kFailed, kLost}},
      {kDone, {}},
      {kFailed, {}},
      {kLost, {}},
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

/// The effects in a form that is easy to compare: "driver node 0 running", "agent 1 stop", ...
std::vector<std::string> Words(const Effects& effects) {
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
  EXPECT_EQ(StateOf(1), kDone);
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

TEST_F(RosterTest, AnAgentWhoseNodeIsDoneIsStillToldToStop) {
  RunAll();
  roster_.Finish(1, clock_.Now());
  EXPECT_THAT(Words(roster_.StopAll({.reason = "shut down", .grace = seconds(1)}, clock_.Now())),
              testing::Contains("agent 1 stop"));
  EXPECT_EQ(StateOf(1), kDone);
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

TEST_F(RosterTest, StoppingIsNoFailure) {
  RunAll();
  EXPECT_THAT(Words(roster_.StopAll({.reason = "shut down", .grace = seconds(1)}, clock_.Now())),
              ElementsAre("agent 0 stop", "driver node 0 draining", "agent 1 stop",
                          "driver node 1 draining", "agent 2 stop", "driver node 2 draining"));
  roster_.Finish(0, clock_.Now());
  roster_.ConnectionLost(1, clock_.Now());
  EXPECT_THAT(Words(roster_.Finish(2, clock_.Now())), ElementsAre("driver node 2 done"));
  roster_.ConnectionLost(0, clock_.Now());
  EXPECT_THAT(Words(roster_.ConnectionLost(2, clock_.Now())), ElementsAre("driver finished"));
  EXPECT_EQ(StateOf(1), kDone);
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
  EXPECT_THAT(roster_.EndFeed(clock_.Now()), IsEmpty());
  EXPECT_THAT(Words(RegisterNode(2)),
              ElementsAre("driver node 2 registered", "publish", "driver formed",
                          "agent 1 end_feed", "agent 2 end_feed"));
  EXPECT_THAT(Words(roster_.SetState(1, State(kRunning), clock_.Now())),
              ElementsAre("driver node 1 running", "driver node 1 draining"));
  EXPECT_THAT(Words(roster_.SetState(0, State(kRunning), clock_.Now())),
              ElementsAre("driver node 0 running"));
}

TEST_F(RosterTest, TheEndOfAnEpochReachesFedNodesOnly) {
  RunAll();
  EXPECT_THAT(Words(roster_.EndEpoch({.queue = "input", .epoch = 2})),
              ElementsAre("agent 1 end_epoch", "agent 2 end_epoch"));
}

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

TEST_F(RosterTest, AStateReportThatComesTooLateStillBringsItsNews) {
  Form();
  roster_.SetState(1, State(kRunning), clock_.Now());
  roster_.EndFeed(clock_.Now());
  StateReport late = State(kRunning, "epoch 3");
  late.pid = 77;
  late.feed = FeedEndpoint{.socket = "s", .port = 9};
  EXPECT_THAT(Words(roster_.SetState(1, late, clock_.Now())),
              ElementsAre("driver node 1 draining"));
  const NodeInfo node = roster_.Nodes(clock_.Now())[1];
  EXPECT_EQ(node.pid, 77);
  EXPECT_EQ(node.feed->port, 9);
  EXPECT_EQ(node.detail, "epoch 3");
}

TEST_F(RosterTest, AnAgentCannotPlayWithNodesThatAreOver) {
  RunAll();
  roster_.Finish(1, clock_.Now());
  EXPECT_THAT(roster_.SetState(1, State(kRunning), clock_.Now()), IsEmpty());
  EXPECT_THAT(roster_.Fail(1, Report("late"), clock_.Now()), IsEmpty());
  EXPECT_THAT(roster_.SetState(99, State(kRunning), clock_.Now()), IsEmpty());
  EXPECT_FALSE(roster_.failure().has_value());
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

TEST_F(RosterTest, ExplainsEachNodeInASentence) {
  RegisterNode(1);
  roster_.SetState(1, State(kRegistered, "importing TensorFlow"), clock_.Now());
  clock_.Advance(milliseconds(2500));
  EXPECT_EQ(roster_.Explain(1, clock_.Now()),
            "worker:0 (node 1 on h1): registered for 2.5 s (importing TensorFlow)");
}

}  // namespace
}  // namespace tfos::control
