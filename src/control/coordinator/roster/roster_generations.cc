#include <algorithm>
#include <utility>

#include "base/format.h"
#include "control/coordinator/roster/node_words.h"
#include "control/coordinator/roster/roster.h"

// What becomes of a cluster that loses nodes, and gets others: docs/formats/generations.md.

namespace tfos::control {

using std::chrono::milliseconds;

namespace {

/// A node that is lost so often will be lost again.
constexpr int kMostLosses = 16;
/// For what a node does at its end that has not begun to train.
constexpr milliseconds kGraceForLate{5000};

}  // namespace

bool Roster::IsNewcomer(const Node& node) const {
  return is_elastic() && formed_at_.has_value() && !node.service && node.connected &&
         !generations_.IsMember(node.info.node_id);
}

Status Roster::CheckLate(const Node& node) const {
  const NodeInfo& info = node.info;
  const auto refuse = [&info](std::string_view why) {
    return Status(ErrorKind::kBadInput, fmt::format("{} {}", NodeName(info), why));
  };
  if (info.state != NodeState::kExpected && info.state != NodeState::kLost) {
    return refuse(fmt::format("has registered before and is {}", NodeStateName(info.state)));
  }
  if (!is_elastic() || !options_.late_nodes || !formed_at_.has_value() || node.service) {
    return refuse(fmt::format("is {}, and this cluster takes no other node in its place",
                              NodeStateName(info.state)));
  }
  if (generations_.is_over(Training())) {
    return refuse("comes too late: the programs of the nodes that train have ended");
  }
  if (node.losses >= kMostLosses) {
    return refuse(fmt::format("was given up: {}", info.detail));
  }
  return {};
}

bool Roster::MayFormWithFewer(TimePoint now) const {
  if (!is_elastic() || !options_.late_nodes) return false;
  if (formed_at_.has_value() || !stop_reason_.empty()) return false;
  const auto there = Training().size();
  // Not so late that the driver, or this, gives the cluster up first.
  const bool is_time =
      now - last_came_ >= options_.grow_after ||
      now - begun_ >= std::max<milliseconds>(options_.grow_after, options_.registration_timeout -
                                                                      2 * options_.grow_after);
  return there >= static_cast<std::size_t>(options_.min_nodes) && is_time &&
         std::ranges::none_of(nodes_, [](const Node& node) {
           return node.service && node.info.state == NodeState::kExpected;
         });
}

Effects Roster::RecordReady(int node_id, const GroupReady& ready, TimePoint now) {
  Effects effects;
  Node* node = Find(node_id);
  if (node == nullptr || node->service || !is_elastic()) return effects;
  node->heard = now;
  const auto refuse = [&](std::string reason) {
    if (!ready.leaves) effects.push_back(TellAgent{node_id, NoGroup{std::move(reason)}});
    return effects;
  };
  if (!stop_reason_.empty()) return refuse(NoGroupAtStop(stop_reason_));
  if (IsFinal(node->info.state)) {
    return refuse(fmt::format("{} is not a member of its group any more: it is {}{}{}",
                              NodeName(node->info), NodeStateName(node->info.state),
                              node->info.detail.empty() ? "" : ", ", node->info.detail));
  }
  TellOfGeneration(generations_.Ready(node_id, ready, Training()), now, effects);
  EndLateNodes(now, effects);
  return effects;
}

std::string Roster::WhyNobodyComes(const Node& node) const {
  const bool others_may_come = options_.late_nodes || !formed_at_.has_value();
  if (!is_elastic() || node.service || others_may_come || !stop_reason_.empty() || MayLose(node)) {
    return "";
  }
  return fmt::format(
      ". {} of at least {} nodes that train are left, and none comes in place of a lost one: "
      "Spark feeds the nodes, or spark.tfos.lateNodes is false",
      generations_.there() - 1, options_.min_nodes);
}

GenerationOffice::Nodes Roster::Training() const {
  GenerationOffice::Nodes training;
  for (const Node& node : nodes_) {
    const NodeInfo& info = node.info;
    if (node.service || !node.connected || IsFinal(info.state)) continue;
    training.emplace(info.node_id,
                     GroupMember{.rank = info.rank,
                                 .name = fmt::format("{}:{} on host {}", info.job_name,
                                                     info.task_index, info.host),
                                 .address = info.address,
                                 .port = info.tensor_port});
  }
  return training;
}

void Roster::TellOfGeneration(const GenerationOffice::Outcome& outcome, TimePoint now,
                              Effects& effects) {
  for (const int node_id : outcome.members) {
    if (outcome.regroup) effects.push_back(TellAgent{node_id, *outcome.regroup});
    if (outcome.formed) effects.push_back(TellAgent{node_id, *outcome.formed});
    if (outcome.meet) effects.push_back(TellAgent{node_id, *outcome.meet});
  }
  for (const int node_id : outcome.unreachable) GiveUp(*Find(node_id), now, effects);
  if (outcome.failure) {
    Spread(BlamingNobody(Saying("train together", *outcome.failure)), *outcome.failure, now,
           effects);
  }
  LookAtWaits(now, effects);
}

void Roster::GiveUp(Node& node, TimePoint now, Effects& effects) {
  const std::string message = fmt::format(
      "the nodes that train could not connect with {}: check the firewall between its host and "
      "theirs, port {}",
      NodeName(node.info), node.info.tensor_port);
  effects.push_back(TellAgent{node.info.node_id, Stop{message, kGraceForLate}});
  const bool bearable = MayLose(node);
  if (!Become(node, NodeState::kLost, message, now, effects)) return;
  node.losses = kMostLosses;  // Each time that it came again, all others would wait for minutes.
  Failure failure = FailureOf(node.info, Saying("train together", message));
  if (bearable) {
    GoOnWithout(node, std::move(failure), now, effects);
  } else {
    Spread(std::move(failure), message, now, effects);
  }
}

void Roster::LookAtWaits(TimePoint now, Effects& effects) {
  if (!formed_at_.has_value() || !stop_reason_.empty()) return;
  const GenerationOffice::Nodes training = Training();
  const bool below = generations_.is_below() && !generations_.is_over(training);
  if (!below) below_since_.reset();
  if (below && !below_since_) below_since_ = now;
  if (below && now - *below_since_ >= options_.min_nodes_timeout && last_loss_) {
    Failure failure = *last_loss_;
    failure.report.message += fmt::format(
        ". {} of at least {} nodes were there, and no other came within {} "
        "(spark.tfos.minNodes.timeout)",
        generations_.there(), options_.min_nodes, SecondsForPeople(options_.min_nodes_timeout));
    const std::string reason = failure.report.message;
    Spread(std::move(failure), reason, now, effects);
    return;
  }
  std::string wait = generations_.is_over(training) ? "" : generations_.DescribeWait(training);
  if (below)
    wait += ": the cluster fails " + SecondsForPeople(options_.min_nodes_timeout) +
            " after there were fewer";
  if (wait == told_of_wait_) return;
  told_of_wait_ = wait;
  effects.push_back(TellDriver{TrainingWaits{std::move(wait)}});
}

void Roster::EndLateNodes(TimePoint now, Effects& effects) {
  if (!formed_at_.has_value() || !stop_reason_.empty() || !generations_.is_over(Training())) return;
  // Those that have left, and are about to end, may be lost yet: they have done all there was.
  for (Node& node : nodes_) {
    if (node.service) continue;
    if (node.info.state == NodeState::kExpected) {
      Become(node, NodeState::kLost, "did not come before the others had ended", now, effects);
    } else if (generations_.Waits(node.info.node_id) && node.info.state != NodeState::kDraining &&
               !IsFinal(node.info.state)) {
      const std::string reason = "it came too late: the others have ended";
      effects.push_back(TellAgent{node.info.node_id, Stop{reason, kGraceForLate}});
      node.told_to_stop = true;
      Become(node, NodeState::kDraining, reason, now, effects);
    }
  }
}

void Roster::GoOnWithout(const Node& node, Failure failure, TimePoint now, Effects& effects) {
  Grant(step_tickets_.MembersChanged(Fed()), effects);
  if (!is_elastic()) return;
  ++Find(node.info.node_id)->losses;
  const std::string reason = failure.report.message;
  last_loss_ = std::move(failure);
  TellOfGeneration(generations_.Lost(node.info.node_id, reason, Training()), now, effects);
  EndLateNodes(now, effects);
}

Effects Roster::AskDrained(const control::AskDrained& asked) {
  Effects effects;
  drained_asked_ = asked;
  Grant(step_tickets_.Look(asked.queue, asked.epoch, asked.number, Fed()), effects);
  return effects;
}

void Roster::LookAtDrained(Effects& effects) {
  if (!drained_asked_) return;
  if (!step_tickets_.IsDrained(drained_asked_->queue, drained_asked_->epoch, Fed())) return;
  effects.push_back(TellDriver{EpochDrained{drained_asked_->number}});
  drained_asked_.reset();
}

bool Roster::MayLose(const Node& node) const {
  const auto chief = std::ranges::find(nodes_, false, &Node::service);
  const auto lost = std::ranges::count_if(nodes_, [](const Node& other) {
    return !other.service && other.info.state == NodeState::kLost;
  });
  if (!formed_at_.has_value() || !stop_reason_.empty() || node.service) return false;
  if (is_elastic()) {
    if (!generations_.IsMember(node.info.node_id)) return true;
    if (generations_.there() > options_.min_nodes) return true;
    GenerationOffice::Nodes others = Training();
    others.erase(node.info.node_id);
    return options_.min_nodes_timeout > milliseconds(0) && !generations_.is_over(others);
  }
  return &node != &*chief && lost < options_.max_lost_nodes;
}

void Roster::Lose(Node& node, const std::string& detail, const std::string& message, TimePoint now,
                  Effects& effects) {
  const bool bearable = MayLose(node);
  // A node that had ended before has nothing left to lose.
  const std::string why = BecauseItLeft(node.info) + WhyNobodyComes(node);
  if (!Become(node, NodeState::kLost, detail + why, now, effects)) return;
  const std::string told = message + why;
  Failure failure = FailureOf(node.info, Saying("watch the node", told));
  if (bearable) {
    GoOnWithout(node, std::move(failure), now, effects);
    return;
  }
  Spread(std::move(failure), told, now, effects);
}

}  // namespace tfos::control
