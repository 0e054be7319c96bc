#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/format.h"
#include "control/coordinator/roster/node_words.h"
#include "control/coordinator/roster/roster.h"

// What becomes of a cluster that loses nodes, and gets others: docs/formats/generations.md.

namespace tfos::control {

using std::chrono::milliseconds;

namespace {

/// For members to come to where they let others in: they may do something else by now, and wait
/// for rows there.
constexpr std::chrono::minutes kPatienceOfFeed{10};
/// For another host to take a node. Then any host may: no other one may have room.
constexpr std::chrono::minutes kPatienceWithHosts{2};
/// As long as others wait for it.
constexpr std::chrono::seconds kPatienceOfThoseThatWait{30};
/// Of the time after which they wait no more: the driver tries again at intervals.
constexpr int kPartForOtherHosts = 4;

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
  if (Returns(node)) return CheckReturning(node);
  if (!is_elastic() || !options_.late_nodes || node.service) {
    return refuse(fmt::format("is {}, and this cluster takes no other node in its place",
                              NodeStateName(info.state)));
  }
  if (formed_at_.has_value() && generations_.is_over(Training())) {
    return refuse("comes too late: the programs of the nodes that train have ended");
  }
  if (feed_ended_) return refuse("comes too late: no more rows will come");
  if (node.unreachable || std::cmp_greater(node.losses.size(), options_.restarts)) {
    return refuse(fmt::format("was given up: {}", info.detail));
  }
  return {};
}

std::string Roster::WhyTurnedAway(const Node& node, const std::string& host, TimePoint now) const {
  if (!formed_at_.has_value() || Returns(node)) return "";
  const auto avoided = host_losses_.Look(host, now);
  if (!avoided.has_value()) return "";
  if (node.turned_away_at && now - *node.turned_away_at >= kPatienceWithHosts) return "";
  const milliseconds patience = std::min<milliseconds>(
      kPatienceOfThoseThatWait, options_.min_nodes_timeout / kPartForOtherHosts);
  if (below_since_ && now - *below_since_ >= patience) return "";
  const bool others_could = std::ranges::any_of(nodes_, [&](const Node& other) {
    const NodeInfo& info = other.info;
    return !other.service && other.connected && !IsFinal(info.state) && info.host != host &&
           !host_losses_.Look(info.host, now).has_value();
  });
  return others_could ? HostIsAvoided(host, host_losses_.limit(), *avoided) : "";
}

Effects Roster::Refused(const control::Register& message, TimePoint now) {
  Effects effects;
  Node* node = Find(message.node_id);
  if (node == nullptr || !stop_reason_.empty() || !CheckLate(*node).ok()) return effects;
  std::string why = WhyTurnedAway(*node, message.host, now);
  // Once until it has come: each further attempt there ends the same way.
  if (why.empty() || node->turned_away_at) return effects;
  node->turned_away_at = now;
  node->info.detail += (node->info.detail.empty() ? "" : ". ") + why;
  effects.push_back(TellDriver{NodeChanged{Info(*node, now)}});
  effects.push_back(
      TellDriver{TurnedAway{.node_id = message.node_id, .host = message.host, .reason = why}});
  return effects;
}

void Roster::BlameHost(const Node& node, TimePoint now) {
  // Spark takes executors away for reasons of its own.
  if (node.info.leaving.empty()) host_losses_.Add(node.info.host, now);
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

void Roster::ForgetLosses(TimePoint now) {
  for (Node& node : nodes_) {
    std::erase_if(node.losses, [&](TimePoint loss) { return now - loss >= options_.loss_period; });
  }
  std::erase_if(errors_,
                [&](const auto& error) { return now - error.first >= options_.loss_period; });
}

std::string Roster::WhyNobodyComes(const Node& node) const {
  if ((Returns(node) || (is_elastic() && options_.late_nodes && MayLose(node))) &&
      std::cmp_greater_equal(node.losses.size(), options_.restarts)) {
    return fmt::format(
        ". It is given up, after spark.tfos.restarts={} restarts within {} "
        "(spark.tfos.hosts.lossPeriod)",
        options_.restarts, SecondsForPeople(options_.loss_period));
  }
  const bool others_may_come = options_.late_nodes || !formed_at_.has_value();
  if (!is_elastic() || node.service || others_may_come || !stop_reason_.empty() || MayLose(node)) {
    return "";
  }
  return fmt::format(
      ". {} of at least {} nodes that train are left, and none comes in place of a lost one: "
      "spark.tfos.lateNodes is false",
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
  for (const int node_id : outcome.came) {
    effects.push_back(TellDriver{NodeChanged{Info(*Find(node_id), now)}});
  }
  if (!outcome.came.empty()) {
    some_came_in_ = true;
    Grant(step_tickets_.MembersChanged(Fed()), effects);
  }
  for (const int node_id : outcome.unreachable) GiveUp(*Find(node_id), now, effects);
  if (outcome.failure) {
    Spread(BlamingNobody(Saying("train together", *outcome.failure)), *outcome.failure, now,
           effects);
  }
  LookAtWaits(now, effects);
  LookAtBegun(now, effects);
}

void Roster::GiveUp(Node& node, TimePoint now, Effects& effects) {
  const std::string message = fmt::format(
      "the nodes that train could not connect with {}: check the firewall between its host and "
      "theirs, port {}",
      NodeName(node.info), node.info.tensor_port);
  effects.push_back(TellAgent{node.info.node_id, Stop{message, options_.stop_grace}});
  const bool bearable = MayLose(node);
  if (!Become(node, NodeState::kLost, message, now, effects)) return;
  node.unreachable = true;  // Each time that it came again, all others would wait for minutes.
  Failure failure = FailureOf(node.info, Saying("train together", message));
  if (bearable) {
    BlameHost(node, now);
    GoOnWithout(node, std::move(failure), now, effects);
  } else {
    Spread(std::move(failure), message, now, effects);
  }
}

void Roster::LookAtWaits(TimePoint now, Effects& effects) {
  if (!formed_at_.has_value() || !stop_reason_.empty()) return;
  const GenerationOffice::Nodes training = Training();
  // Those that Spark feeds go on to the end of an epoch, and wait then.
  const bool below =
      generations_.is_below() && generations_.is_open() && !generations_.is_over(training);
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
    } else if (generations_.Waits(node.info.node_id)) {
      StopLate(node, "it came too late: the others have ended", now, effects);
    }
  }
}

void Roster::StopLate(Node& node, const std::string& reason, TimePoint now, Effects& effects) {
  if (node.told_to_stop || IsFinal(node.info.state)) return;
  effects.push_back(TellAgent{node.info.node_id, Stop{reason, options_.stop_grace}});
  node.told_to_stop = true;
  Become(node, NodeState::kDraining, reason, now, effects);
}

void Roster::GoOnWithout(const Node& node, Failure failure, TimePoint now, Effects& effects) {
  ExcuseSteps(now);
  Grant(step_tickets_.MembersChanged(Fed()), effects);
  if (Returns(node)) {
    Node& lost = *Find(node.info.node_id);
    lost.losses.push_back(now);
    lost.loss = std::move(failure);
    return;
  }
  if (!is_elastic()) return;
  Find(node.info.node_id)->losses.push_back(now);
  const std::string reason = failure.report.message;
  last_loss_ = std::move(failure);
  if (!formed_at_.has_value()) return;
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
  const auto& [queue, epoch, number] = *drained_asked_;
  const StepTicketOffice::Members fed = Fed();
  if (!step_tickets_.IsDrained(queue, epoch, fed) && !step_tickets_.IsLeft(queue, fed)) return;
  effects.push_back(TellDriver{EpochDrained{number}});
  drained_asked_.reset();
}

Effects Roster::BeginEpoch(const control::BeginEpoch& begun, TimePoint now) {
  Effects effects;
  begin_asked_ = begun;
  begin_asked_at_ = now;
  LookAtBegun(now, effects);
  return effects;
}

void Roster::LookAtBegun(TimePoint now, Effects& effects) {
  if (!begin_asked_ || !formed_at_.has_value() || !stop_reason_.empty()) return;
  const GenerationOffice::Nodes training = Training();
  const bool some_wait = generations_.anyone_waits() || generations_.is_below();
  // Members meet once before an epoch. Those that came in then wait for their rows.
  const bool may_come =
      generations_.is_open() && some_wait && !some_came_in_ && !generations_.is_over(training);
  // A node that reads the epoch has let in whom it lets in.
  const bool has_begun = step_tickets_.HasBegun(begin_asked_->queue, begin_asked_->epoch);
  const bool has_time = generations_.gathering() || now - begin_asked_at_ < kPatienceOfFeed;
  if (may_come && !has_begun && has_time) return;
  begun_epoch_ = std::exchange(begin_asked_, std::nullopt);
  const int number = begun_epoch_->number;
  TellOfGeneration(generations_.SetOpen(false, training), now, effects);
  effects.push_back(TellDriver{EpochBegins{number}});
}

Effects Roster::EndEpoch(const control::EndEpoch& ended, TimePoint now) {
  Effects effects;
  step_tickets_.EpochEnded(ended.queue, ended.epoch);
  const bool is_it =
      begun_epoch_ && begun_epoch_->queue == ended.queue && begun_epoch_->epoch <= ended.epoch;
  if (is_it && stop_reason_.empty()) {
    begun_epoch_.reset();
    some_came_in_ = false;
    // Before the nodes hear of the end: those that wait come in before the next epoch.
    TellOfGeneration(generations_.SetOpen(true, Training()), now, effects);
  }
  std::ranges::move(TellFed(ended), std::back_inserter(effects));
  return effects;
}

bool Roster::MayLose(const Node& node) const {
  const auto chief = std::ranges::find(nodes_, false, &Node::service);
  const auto lost = std::ranges::count_if(nodes_, [](const Node& other) {
    return !other.service && other.info.state == NodeState::kLost;
  });
  if (!stop_reason_.empty()) return false;
  if (Returns(node)) return std::cmp_less(node.losses.size(), options_.restarts);
  if (node.service) return false;
  // While the cluster forms, Spark runs the launch task of a lost node again.
  if (!formed_at_.has_value()) return is_elastic() && options_.late_nodes;
  if (is_elastic()) {
    if (!generations_.IsMember(node.info.node_id)) return true;
    if (generations_.there() > options_.min_nodes) return true;
    GenerationOffice::Nodes others = Training();
    others.erase(node.info.node_id);
    return options_.min_nodes_timeout > milliseconds(0) && !generations_.is_over(others);
  }
  return &node != &*chief && lost < options_.max_lost_nodes;
}

}  // namespace tfos::control
