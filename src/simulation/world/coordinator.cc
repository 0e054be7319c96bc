#include "simulation/world/coordinator.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

namespace tfos::simulation {
namespace {

using namespace control;

constexpr seconds kTick{1};
constexpr milliseconds kPipe{1};  // The driver is on the coordinator's host.

RosterOptions OptionsOf(const Scenario& scenario) {
  RosterOptions options;
  options.cluster_id = "c";
  for (int i = 0; i < scenario.services; ++i) {
    options.roles.push_back({.job_name = "ps", .task_index = i, .service = true});
  }
  for (int i = 0; i < scenario.trainers; ++i) {
    options.roles.push_back({.job_name = "worker", .task_index = i, .service = false});
  }
  options.registration_timeout = seconds(120);
  options.min_nodes = scenario.min_nodes;
  options.min_nodes_timeout = scenario.min_nodes_timeout;
  options.late_nodes = scenario.late_nodes;
  return options;
}

template <typename Message>
std::string TextOf(const Message& message) {
  using Type = std::decay_t<Message>;
  if constexpr (std::is_same_v<Type, UnknownMessage>) {
    return "unknown";
  } else if constexpr (std::is_same_v<Type, GroupReady>) {
    return fmt::format("ready {} committed {}{}{} lacks {}: {}", message.generation,
                       message.committed, message.leaves ? " leaves" : "",
                       message.admits ? " admits" : "", message.lacks, message.reason);
  } else if constexpr (std::is_same_v<Type, FormedGroup>) {
    std::string text = fmt::format("group {} committed {}{} of", message.generation,
                                   message.committed, message.admits ? " admits" : "");
    for (const GroupMember& member : message.members) text += fmt::format(" {}", member.rank);
    return text;
  } else if constexpr (std::is_same_v<Type, Regroup>) {
    return fmt::format("regroup {}: {}", message.generation, message.reason);
  } else if constexpr (std::is_same_v<Type, StepReport>) {
    return fmt::format("report {} {}: {} full, {} made{}{}, looked {}, {} rows, {} passable",
                       message.queue, message.epoch, message.full_batches, message.made,
                       message.ended ? ", ended" : "", message.waits ? ", waits" : "",
                       message.looked, message.rows, message.passable_rows);
  } else if constexpr (std::is_same_v<Type, StepTickets>) {
    std::string text = fmt::format("tickets {} {}: {} granted{}{}, longest {}, {} missing, look {}",
                                   message.queue, message.epoch, message.granted,
                                   message.final ? ", final" : "", message.ending ? ", ending" : "",
                                   message.longest, message.missing.size(), message.look);
    for (const RowPass& pass : message.passes) {
      text += fmt::format(", {} from {} to {}", pass.rows, pass.from, pass.to);
    }
    return text;
  } else if constexpr (std::is_same_v<Type, NodeChanged>) {
    return fmt::format("node {} {}{}: {}", message.node.node_id, NodeStateName(message.node.state),
                       message.node.joins ? " joins" : "", message.node.detail);
  } else if constexpr (std::is_same_v<Type, ClusterFailed>) {
    return "failed: " + message.failure.report.message;
  } else if constexpr (std::is_same_v<Type, TrainingWaits>) {
    return "waiting: " + message.reason;
  } else if constexpr (requires { message.reason; }) {
    return fmt::format("{}: {}", Type::kType, message.reason);
  } else if constexpr (requires { message.number; }) {
    return fmt::format("{} {}", Type::kType, message.number);
  } else if constexpr (requires { message.epoch; }) {
    return fmt::format("{} {}", Type::kType, message.epoch);
  } else {
    return std::string(Type::kType);
  }
}

template <typename Variant>
std::string Text(const Variant& messages) {
  return std::visit([](const auto& message) { return TextOf(message); }, messages);
}

}  // namespace

SimulatedCoordinator::SimulatedCoordinator(const Scenario& scenario, Scheduler& scheduler,
                                           Random& random, Trace& trace, Watch& watch,
                                           std::function<void(CoordinatorEvent)> to_driver)
    : scenario_(scenario),
      scheduler_(scheduler),
      random_(random),
      trace_(trace),
      watch_(watch),
      roster_(OptionsOf(scenario), scheduler.now()),
      to_driver_(scheduler, random, kPipe, std::move(to_driver)) {
  scheduler_.After(kTick, [this] { Tick(); });
}

void SimulatedCoordinator::Tick() {
  Apply(roster_.Tick(scheduler_.now()));
  scheduler_.After(kTick, [this] { Tick(); });
}

Connection& SimulatedCoordinator::Open(int node_id, int incarnation,
                                       std::function<void(Connection::Down)> deliver) {
  Connection& connection = *connections_.emplace_back(std::make_unique<Connection>());
  connection.node_id = node_id;
  connection.incarnation = incarnation;
  connection.up = std::make_unique<Link<Connection::Up>>(
      scheduler_, random_, scenario_.message_delay,
      [this, &connection](Connection::Up message) { OnMessage(connection, std::move(message)); });
  connection.down = std::make_unique<Link<Connection::Down>>(
      scheduler_, random_, scenario_.message_delay, std::move(deliver));
  return connection;
}

void SimulatedCoordinator::OnMessage(Connection& connection, Connection::Up message) {
  if (!message) return OnClosed(connection);
  if (trace_.enabled() && !std::holds_alternative<Heartbeat>(*message)) {
    trace_.Note("{} (node {}) says: {}", connection.incarnation, connection.node_id,
                Text(*message));
  }
  if (const auto* registration = std::get_if<Register>(&*message)) {
    return Admit(connection, *registration);
  }
  // One that is lost and has another in its place, or stands by, has nothing more to say.
  const auto current = connection_of_.find(connection.node_id);
  if (current == connection_of_.end() || current->second != &connection) return;
  Apply(Handle(connection.node_id, *message));
}

void SimulatedCoordinator::Admit(Connection& connection, const Register& registration) {
  auto effects = roster_.Register(registration, scheduler_.now());
  if (!effects.ok()) {
    trace_.Note("{} is refused: {}", connection.incarnation, effects.status().ToString());
    connection.down->Send(Refused{effects.status().message()});
    return;
  }
  connection.registered = true;
  connection_of_[connection.node_id] = &connection;
  watch_.Registered(connection.node_id, connection.incarnation);
  Apply(*std::move(effects));
}

void SimulatedCoordinator::OnClosed(Connection& connection) {
  const auto current = connection_of_.find(connection.node_id);
  if (current == connection_of_.end() || current->second != &connection) return;
  trace_.Note("{} (node {}) has closed its connection", connection.incarnation, connection.node_id);
  connection_of_.erase(current);
  Apply(roster_.ConnectionLost(connection.node_id, scheduler_.now()));
}

Effects SimulatedCoordinator::Handle(int node_id, const AgentMessage& message) {
  const auto now = scheduler_.now();
  if (const auto* state = std::get_if<StateReport>(&message)) {
    return roster_.SetState(node_id, *state, now);
  }
  if (const auto* beat = std::get_if<Heartbeat>(&message)) {
    return roster_.RecordHeartbeat(node_id, *beat, now);
  }
  if (const auto* report = std::get_if<StepReport>(&message)) {
    watch_.Heard(node_id, *report);
    return roster_.RecordSteps(node_id, *report, now);
  }
  if (const auto* ready = std::get_if<GroupReady>(&message)) {
    watch_.Heard(node_id, *ready);
    return roster_.RecordReady(node_id, *ready, now);
  }
  if (std::holds_alternative<FeedTerminated>(message)) return roster_.FeedTerminated(node_id, now);
  if (const auto* failed = std::get_if<FailureMessage>(&message)) {
    return roster_.Fail(node_id, failed->failure, now);
  }
  if (std::holds_alternative<Done>(message)) return roster_.Finish(node_id, now);
  return {};
}

void SimulatedCoordinator::FromDriver(const DriverMessage& message) {
  const auto now = scheduler_.now();
  if (trace_.enabled()) trace_.Note("the driver says: {}", Text(message));
  if (const auto* end = std::get_if<EndEpoch>(&message)) {
    watch_.HearEndOfEpoch();
    Apply(roster_.EndEpoch(*end, now));
  }
  if (const auto* asked = std::get_if<AskDrained>(&message)) Apply(roster_.AskDrained(*asked));
  if (const auto* begun = std::get_if<BeginEpoch>(&message)) Apply(roster_.BeginEpoch(*begun, now));
  if (const auto* ended = std::get_if<control::EndFeed>(&message)) {
    watch_.HearEndOfFeed(ended->at_once);
    Apply(roster_.EndFeed(*ended, now));
  }
  if (const auto* stop = std::get_if<Stop>(&message)) {
    stopped_ = true;
    Effects effects = roster_.StopAll(*stop, now);
    watch_.Stopped();
    Apply(std::move(effects));
  }
}

bool SimulatedCoordinator::HasEnded(int node_id, int incarnation) const {
  const auto current = connection_of_.find(node_id);
  if (current == connection_of_.end() || current->second->incarnation != incarnation) return true;
  return IsFinal(roster_.StateOf(node_id));
}

void SimulatedCoordinator::Apply(Effects effects) {
  watch_.Said(effects, roster_);
  for (Effect& effect : effects) {
    if (auto* tell = std::get_if<TellDriver>(&effect)) {
      if (trace_.enabled()) trace_.Note("  the driver is told: {}", Text(tell->event));
      if (std::holds_alternative<ClusterFailed>(tell->event)) stopped_ = true;
      to_driver_.Send(std::move(tell->event));
    } else if (auto* command = std::get_if<TellAgent>(&effect)) {
      if (trace_.enabled()) {
        trace_.Note("  node {} is told: {}", command->node_id, Text(command->command));
      }
      Command(command->node_id, std::move(command->command));
    } else if (const auto* start = std::get_if<PublishStart>(&effect)) {
      Start(start->node_id);
    } else if (const auto* lost = std::get_if<Disconnect>(&effect)) {
      const auto found = connection_of_.find(lost->node_id);
      if (found == connection_of_.end()) continue;
      Connection& connection = *found->second;
      trace_.Note("  node {} is disconnected", lost->node_id);
      connection.up->Cut();
      connection.down->LoseSome();
      connection.down->Send(std::nullopt);
      scheduler_.After(milliseconds(1), [this, &connection] { OnClosed(connection); });
    }
  }
}

void SimulatedCoordinator::Command(int node_id, AgentCommand command) {
  const auto found = connection_of_.find(node_id);
  if (found == connection_of_.end()) return;
  Link<Connection::Down>& link = *found->second->down;
  const auto* tickets = std::get_if<StepTickets>(&command);
  if (tickets != nullptr && scenario_.coalesces) {
    // As AgentConnection::SendLatest: in the place of the one that waits.
    for (Connection::Down& waiting : link.under_way()) {
      auto* const before = waiting ? std::get_if<StepTickets>(&*waiting) : nullptr;
      if (before == nullptr || before->queue != tickets->queue || before->epoch != tickets->epoch) {
        continue;
      }
      *before = *tickets;
      return;
    }
  }
  link.Send(std::move(command));
}

void SimulatedCoordinator::Start(std::optional<int> only) {
  for (const auto& [node_id, connection] : connection_of_) {
    if (only && node_id != *only) continue;
    StartNode start = roster_.Start(node_id);
    start.nodes = roster_.Nodes(scheduler_.now());
    connection->down->Send(std::move(start));
  }
}

}  // namespace tfos::simulation
