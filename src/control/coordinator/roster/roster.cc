#include "control/coordinator/roster/roster.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/format.h"
#include "control/coordinator/roster/node_words.h"
#include "control/messages/parts/metric_names.h"
#include "control/messages/progress/silence.h"

namespace tfos::control {
namespace {

using std::chrono::milliseconds;

// For a node that makes no steps to say where it stands.
constexpr std::chrono::seconds kPatienceWithStacks{15};

milliseconds Elapsed(Clock::TimePoint from, Clock::TimePoint to) {
  return std::chrono::duration_cast<milliseconds>(to - from);
}

}  // namespace

Roster::Roster(RosterOptions options, TimePoint now)
    : options_(std::move(options)),
      begun_(now),
      generations_(options_.min_nodes),
      host_losses_(options_.max_losses_of_host, options_.loss_period) {
  nodes_.reserve(options_.roles.size());
  int next_rank = 0;
  for (const Role& role : options_.roles) {
    Node node;
    node.info.node_id = static_cast<int>(nodes_.size());
    node.info.job_name = role.job_name;
    node.info.task_index = role.task_index;
    node.service = role.service;
    if (!role.service) node.info.rank = next_rank++;
    node.since = now;
    nodes_.push_back(std::move(node));
  }
}

Result<Effects> Roster::Register(const control::Register& message, TimePoint now) {
  TFOS_RETURN_IF_ERROR(CheckProtocol("agent", message.protocol));
  Node* node = Find(message.node_id);
  if (node == nullptr) {
    return Status(ErrorKind::kBadInput, fmt::format("there is no node {}: the cluster has {} nodes",
                                                    message.node_id, nodes_.size()));
  }
  if (!stop_reason_.empty()) {
    return Status(ErrorKind::kBadInput, "the cluster is stopping: " + stop_reason_);
  }
  const bool late = formed_at_.has_value();
  if (late || node->info.state != NodeState::kExpected) TFOS_RETURN_IF_ERROR(CheckLate(*node));
  if (std::string why = WhyTurnedAway(*node, message.host, now); !why.empty()) {
    return Status(ErrorKind::kBadInput, std::move(why));
  }
  node->info.host = message.host;
  node->info.address = message.address;
  node->info.port = message.port;
  node->info.tensor_port = message.tensor_port;
  node->info.agent_pid = message.agent_pid;
  node->info.executor_id = message.executor_id;
  node->info.gpus = message.gpus;
  node->info.leaving.clear();
  node->info.pid = 0;
  node->info.tensorboard.reset();
  node->metrics.BeginAnew(node->info.feed.has_value());
  node->info.feed.reset();
  node->steps = StepWatch();
  node->stacks_asked_at.reset();
  node->told_to_stop = node->feed_terminated = false;
  node->turned_away_at.reset();
  node->came_late = late;
  node->loss.reset();
  node->connected = true;
  node->heard = last_came_ = now;
  Effects effects;
  Become(*node, NodeState::kRegistered,
         late ? "starting its program" : "waiting for the other nodes", now, effects);
  for (const Node& other : nodes_) {
    if (other.info.leaving.empty() || IsFinal(other.info.state)) continue;
    effects.push_back(
        TellAgent{message.node_id, NodeLeaving{other.info.node_id, other.info.leaving}});
  }
  if (late) {
    effects.push_back(PublishStart{message.node_id});
    // The others may be about to begin an epoch that the driver has ended before: nobody tells of
    // that again.
    for (const auto& [queue, epoch] : step_tickets_.ended()) {
      effects.push_back(TellAgent{message.node_id, control::EndEpoch{queue, epoch}});
    }
    return effects;
  }
  const bool all = std::ranges::all_of(nodes_, &Node::connected);
  if (all) Publish(now, effects);
  return effects;
}

bool Roster::IsTaken(int node_id) const {
  if (node_id < 0 || static_cast<std::size_t>(node_id) >= nodes_.size()) return false;
  const NodeState state = nodes_[static_cast<std::size_t>(node_id)].info.state;
  return state != NodeState::kExpected && state != NodeState::kLost && state != NodeState::kFailed;
}

void Roster::Publish(TimePoint now, Effects& effects) {
  formed_at_ = now;
  for (Node& node : nodes_) {
    if (node.connected) node.info.detail = "starting its program";
  }
  generations_.Begin(Training());
  effects.push_back(PublishStart{});
  effects.push_back(TellDriver{ClusterFormed{Nodes(now)}});
  if (feed_ended_) {
    for (const Node& node : nodes_) {
      if (!node.service)
        effects.push_back(TellAgent{node.info.node_id, control::EndFeed{feed_ended_at_once_}});
    }
  }
}

Effects Roster::SetState(int node_id, const StateReport& report, TimePoint now) {
  Effects effects;
  Node* node = Find(node_id);
  if (node == nullptr) return effects;
  if (IsFinal(node->info.state)) {
    // TensorBoard outlives its node's program, and may listen only after that has ended.
    if (node->connected && node->info.tensorboard != report.tensorboard) {
      node->info.tensorboard = report.tensorboard;
      effects.push_back(TellDriver{NodeChanged{Info(*node, now)}});
    }
    return effects;
  }
  if (report.state == NodeState::kDone) return Finish(node_id, now);
  node->heard = now;
  // A report can be overtaken by what the driver asked for; what it says beyond the state is news.
  const bool overtaken =
      node->info.state == NodeState::kDraining && report.state == NodeState::kRunning;
  const bool says_nothing = overtaken && report.detail.empty();
  node->info.detail = says_nothing ? node->detail_of_state : report.detail;
  if (report.pid != 0) node->info.pid = report.pid;
  if (report.feed.has_value()) node->info.feed = report.feed;
  node->info.tensorboard = report.tensorboard;
  if (!Become(*node, report.state, report.detail, now, effects)) {
    effects.push_back(TellDriver{NodeChanged{Info(*node, now)}});
  } else if (report.state == NodeState::kRunning && node->came_late && Returns(*node)) {
    TellMoved(*node, effects);
  }
  if (feed_ended_ && !node->service && node->info.state == NodeState::kRunning) {
    DrainAsFed(*node, now, effects);
  }
  return effects;
}

Effects Roster::RecordHeartbeat(int node_id, const Heartbeat& heartbeat, TimePoint now) {
  if (Node* node = Find(node_id); node != nullptr) {
    node->heard = now;
    node->metrics.Merge(heartbeat.metrics);
    node->steps.Take(node->metrics.values(), HasReasonForNoStep(*node), now);
    if (!IsToMakeSteps(*node)) node->steps.Excuse(now);
    std::optional<MetricValue> stuck;
    if (const auto time = node->steps.without_step(); time.count() > 0) {
      stuck = std::int64_t{time.count()};
    }
    node->metrics.Set(KnownName("seconds_without_step"), std::move(stuck));
  }
  return {};
}

bool Roster::HasReasonForNoStep(const Node& node) {
  const Metrics& metrics = node.metrics.values();
  const NodeState state = node.info.state;
  if (state != NodeState::kRunning && state != NodeState::kDraining) return true;
  // A word of the node itself, such as "evaluating".
  if (node.info.detail != node.detail_of_state) return true;
  if (SecondsSilent(node.info, metrics) > 0) return true;
  // What has all its rows may have trained with them, and export its model.
  const std::optional<double> done = NumberOf(metrics, KnownName("progress"));
  return done.has_value() ? *done >= 1 : state == NodeState::kDraining;
}

bool Roster::IsToMakeSteps(const Node& node) const {
  const NodeState state = node.info.state;
  const bool runs = state == NodeState::kRunning || state == NodeState::kDraining;
  if (!runs || node.service || node.told_to_stop || IsNewcomer(node)) return false;
  // There is another limit for that.
  return SecondsSilent(node.info, node.metrics.values()) <= 0;
}

bool Roster::IsHeldUp(const Node& node) const {
  // A program that has returned may stay for the others.
  return node.feed_terminated || generations_.IsReady(node.info.node_id) ||
         WaitsForOthers(node.metrics.values());
}

Roster::Node* Roster::FindStuck() {
  Node* stuck = nullptr;
  Node* held_up = nullptr;
  bool all_stand = !generations_.gathering();
  const auto stands_longer = [](const Node& node, const Node* other) {
    return other == nullptr || node.steps.standing() > other->steps.standing();
  };
  for (Node& node : nodes_) {
    const bool takes_part = node.connected && !node.service && !IsFinal(node.info.state);
    if (!takes_part || node.told_to_stop || IsNewcomer(node)) continue;
    if (node.steps.standing() < options_.step_timeout) {
      all_stand = false;
      node.stacks_asked_at.reset();
      continue;
    }
    Node*& longest = IsHeldUp(node) ? held_up : stuck;
    if (stands_longer(node, longest)) longest = &node;
  }
  // Those that wait may do so for one that waits for rows.
  return stuck == nullptr && all_stand ? held_up : stuck;
}

void Roster::LookAtSteps(TimePoint now, Effects& effects) {
  if (options_.step_timeout == milliseconds(0) || !formed_at_.has_value()) return;
  // Then there are other limits.
  if (!stop_reason_.empty() || feed_ended_at_once_) return;
  if (below_since_ || std::ranges::any_of(nodes_, [](const Node& n) { return bool(n.loss); })) {
    ExcuseSteps(now);
    return;
  }
  Node* node = FindStuck();
  if (node == nullptr) return;
  if (!node->stacks_asked_at) {
    node->stacks_asked_at = now;
    node->stacks.reset();
    effects.push_back(AskStacks{node->info.node_id, ++node->stacks_number});
  }
  if (!node->stacks && now - *node->stacks_asked_at < kPatienceWithStacks) return;
  FailureReport report =
      NoSteps(node->info, node->steps.step(), Elapsed(now - node->steps.standing(), now),
              IsHeldUp(*node), node->stacks.value_or(""));
  EndStuck(*node, std::move(report), MayLose(*node), now, effects);
}

void Roster::ExcuseSteps(TimePoint now) {
  for (Node& node : nodes_) node.steps.Excuse(now);
}

void Roster::TakeStacks(int node_id, int number, std::string stacks) {
  Node* node = Find(node_id);
  if (node != nullptr && node->stacks_number == number) node->stacks = std::move(stacks);
}

Effects Roster::RecordSteps(int node_id, const StepReport& report, TimePoint now) {
  Effects effects;
  if (Node* node = Find(node_id); node != nullptr && !node->service) {
    node->heard = now;
    if (!step_tickets_.HasRoomFor(report)) return Fail(node_id, TooManyEpochs(report), now);
    Grant(step_tickets_.Report(node_id, report, Fed()), effects);
    LookAtBegun(now, effects);
  }
  return effects;
}

StepTicketOffice::Members Roster::Fed() const {
  StepTicketOffice::Members fed;
  for (const Node& node : nodes_) {
    if (node.service || node.feed_terminated || !node.connected) continue;
    if (IsFinal(node.info.state)) continue;
    if (IsNewcomer(node)) continue;  // It takes part in no step yet.
    fed.emplace(node.info.node_id, fmt::format("{}:{}", node.info.job_name, node.info.task_index));
  }
  return fed;
}

void Roster::Grant(const std::vector<StepTickets>& tickets, Effects& effects) {
  LookAtDrained(effects);
  // Nodes that are stopped begin no step: the others may have ended by then.
  if (tickets.empty() || !stop_reason_.empty()) return;
  for (const auto& [node_id, name] : Fed()) {
    for (StepTickets granted : tickets) {
      for (RowPass& pass : granted.passes) {
        const NodeInfo& to = nodes_[static_cast<std::size_t>(pass.to)].info;
        pass.address = to.address;
        pass.feed = to.feed.value_or(FeedEndpoint{});
      }
      effects.push_back(TellAgent{node_id, std::move(granted)});
    }
  }
}

Effects Roster::FeedTerminated(int node_id, TimePoint now) {
  Effects effects;
  if (Node* node = Find(node_id); node != nullptr) {
    node->heard = now;
    node->feed_terminated = true;
    effects.push_back(TellDriver{NodeFeedTerminated{node_id}});
    // Those that train without it need not wait for it.
    Grant(step_tickets_.MembersChanged(Fed()), effects);
    LookAtBegun(now, effects);
  }
  return effects;
}

Effects Roster::Finish(int node_id, TimePoint now) {
  Effects effects;
  Node* node = Find(node_id);
  if (node == nullptr) return effects;
  node->heard = now;
  // The agent stays connected until it leaves: it may still have a TensorBoard to stop.
  const auto [end, why] = EndOf(*node);
  if (Become(*node, end, why, now, effects)) {
    Grant(step_tickets_.MembersChanged(Fed()), effects);
    if (is_elastic() && stop_reason_.empty()) {
      TellOfGeneration(generations_.Ended(node_id, Training()), now, effects);
      EndLateNodes(now, effects);
    }
  }
  return effects;
}

std::pair<NodeState, std::string> Roster::EndOf(const Node& node) const {
  if (node.told_to_stop) return {NodeState::kStopped, node.info.detail};
  // Those that serve others end when they are told to. In a cluster that failed, nobody is done.
  const bool is_done = !failure_.has_value() && (stop_reason_.empty() || node.service);
  if (is_done) return {NodeState::kDone, ""};
  return {NodeState::kStopped, stop_reason_};
}

Effects Roster::ConnectionLost(int node_id, TimePoint now) {
  Effects effects;
  Node* node = Find(node_id);
  if (node == nullptr || !node->connected) return effects;
  node->connected = false;
  if (!IsFinal(node->info.state)) {
    if (!stop_reason_.empty() && !failure_.has_value()) {
      Become(*node, EndOf(*node).first, "its agent left while the cluster was stopping", now,
             effects);
    } else {
      const NodeState last = node->info.state;
      const std::string message = LostConnection(Info(*node, now));
      Lose(*node, fmt::format("its agent vanished while it was {}", NodeStateName(last)), message,
           now, effects);
    }
  }
  CheckFinished(effects);
  return effects;
}

Effects Roster::Tick(TimePoint now) {
  Effects effects;
  ForgetLosses(now);
  const bool late = !formed_at_.has_value() && !failure_.has_value() && stop_reason_.empty() &&
                    now - begun_ >= options_.registration_timeout;
  if (late) {
    Spread(BlamingNobody(Saying("start", MissingNodes(Nodes(now), options_.registration_timeout,
                                                      options_.coordinator_address))),
           "the cluster was not complete in time", now, effects);
  }
  for (Node& node : nodes_) {
    const milliseconds silence = Elapsed(node.heard, now);
    if (!node.connected || silence < options_.heartbeat_timeout) continue;
    node.connected = false;
    effects.push_back(Disconnect{node.info.node_id});
    const std::string message = LostHeartbeats(node.info, silence);
    Lose(node, "no heartbeat for " + SecondsForPeople(silence), message, now, effects);
  }
  for (Node& node : nodes_) {
    if (!formed_at_.has_value() || node.info.state != NodeState::kRegistered) continue;
    if (now - std::max(*formed_at_, node.since) < options_.start_timeout) continue;
    FailToStart(node, now, effects);
  }
  LookAtSteps(now, effects);
  LookAtHeldBack(now, effects);
  LookAtReturning(now, effects);
  if (MayFormWithFewer(now)) Publish(now, effects);
  if (is_elastic()) {
    LookAtWaits(now, effects);
    LookAtBegun(now, effects);
  }
  CheckFinished(effects);
  return effects;
}

bool Roster::Become(Node& node, NodeState state, std::string detail, TimePoint now,
                    Effects& effects) {
  if (!MayBecome(node.info.state, state)) return false;
  node.info.state = state;
  node.info.detail = node.detail_of_state = std::move(detail);
  node.since = now;
  effects.push_back(TellDriver{NodeChanged{Info(node, now)}});
  // One that has gone will not be lost any more.
  if (IsFinal(state) && !node.info.leaving.empty())
    TellAll(NodeLeaving{node.info.node_id, ""}, effects);
  return true;
}

void Roster::CheckFinished(Effects& effects) {
  if (finished_ || held_back_.has_value()) return;
  // Lost nodes may come again while the cluster forms.
  if (!formed_at_.has_value() && stop_reason_.empty()) return;
  const bool over = std::ranges::all_of(
      nodes_, [](const Node& node) { return IsFinal(node.info.state) && !node.connected; });
  if (!over) return;
  finished_ = true;
  effects.push_back(TellDriver{Finished{}});
}

Roster::Node* Roster::Find(int node_id) {
  if (node_id < 0 || static_cast<std::size_t>(node_id) >= nodes_.size()) return nullptr;
  return &nodes_[static_cast<std::size_t>(node_id)];
}

}  // namespace tfos::control
