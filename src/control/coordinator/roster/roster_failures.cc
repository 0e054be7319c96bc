#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/format.h"
#include "control/coordinator/roster/node_words.h"
#include "control/coordinator/roster/roster.h"

// What becomes of a cluster whose nodes fail, and whom the failure blames.

namespace tfos::control {
namespace {

/// With an error that names another node: that node may have died, and its supervisor, which knows
/// why, may be slower to say so than those that have lost it. A process that the kernel kills
/// closes its connections before it has ended.
constexpr std::chrono::seconds kPatienceWithCause{1};

}  // namespace

Effects Roster::Fail(int node_id, const FailureReport& report, TimePoint now) {
  Effects effects;
  Node* node = Find(node_id);
  if (node == nullptr) return effects;
  node->heard = now;
  FailureReport told = report;
  if (report.lost) told.message += BecauseItLeft(node->info);
  if (report.lost || IsNewcomer(*node)) told.message += WhyNobodyComes(*node);
  // Others do without one that has not come so far as to train with them.
  if ((report.lost || IsNewcomer(*node)) && MayLose(*node)) {
    if (Become(*node, NodeState::kLost, told.message, now, effects)) {
      // With its program's error, a node says that it is lost if the others may go on.
      if (report.lost && report.traceback.empty()) BlameHost(*node, now);
      if (report.lost && !report.traceback.empty()) {
        RememberError(FailureOf(node->info, report), now);
      }
      told.message = fmt::format("{} is lost: {}", NodeName(node->info), told.message);
      GoOnWithout(*node, FailureOf(node->info, told), now, effects);
    }
    return effects;
  }
  if (!Become(*node, NodeState::kFailed, fmt::format("could not {}: {}", told.step, told.message),
              now, effects)) {
    return effects;
  }
  Failure failure = FailureOf(node->info, told);
  std::string name = NodeName(node->info);
  if (const Failure* first = FirstWithErrorOf(report); first != nullptr) {
    failure = *first;
    name = NodeName(nodes_[static_cast<std::size_t>(failure.node_id)].info);
    failure.report.message += fmt::format(". {} failed so, too", NodeName(node->info));
    failure.report.message += WhyNobodyComes(*node);
  }
  if (!failure.report.traceback.empty()) failure.report.lost = false;  // Its program is to blame.
  const std::string reason = fmt::format("{} failed: {}", name, failure.report.message);
  TakeFailure(*node, report, std::move(failure), reason, now, effects);
  CheckFinished(effects);
  return effects;
}

void Roster::TakeFailure(const Node& node, const FailureReport& report, Failure failure,
                         const std::string& reason, TimePoint now, Effects& effects) {
  const std::vector<const Node*> named = OthersNamed(node, report);
  const bool is_named =
      held_back_.has_value() && Names(held_back_->failure.report.message, node.info);
  // Where a group goes on without lost nodes, no error of the others comes of a loss.
  const bool may_follow =
      !failure_ && stop_reason_.empty() && !report.lost && !is_elastic() &&
      std::ranges::any_of(named, [](const Node* other) { return !IsFinal(other->info.state); });
  if (may_follow) {
    // The first stays, unless this is what it follows from.
    if (held_back_.has_value() && !is_named) return;
    const TimePoint until = held_back_ ? held_back_->until : now + kPatienceWithCause;
    held_back_ =
        HeldBack{std::move(failure), reason, until, held_back_ ? held_back_->stop : std::nullopt};
    return;
  }
  // Other programs fail because of the first, too, and may name nobody.
  const bool is_cause = report.traceback.empty() || (is_named && named.empty());
  if (held_back_.has_value() && !is_cause) return;
  Spread(std::move(failure), reason, now, effects);
}

std::vector<const Roster::Node*> Roster::OthersNamed(const Node& node,
                                                     const FailureReport& report) const {
  std::vector<const Node*> named;
  for (const Node& other : nodes_) {
    if (&other != &node && Names(report.message, other.info)) named.push_back(&other);
  }
  return named;
}

void Roster::LookAtHeldBack(TimePoint now, Effects& effects) {
  if (held_back_.has_value() && now >= held_back_->until) SpreadHeldBack(now, effects);
}

void Roster::SpreadHeldBack(TimePoint now, Effects& effects) {
  Failure failure = held_back_->failure;
  const std::string reason = held_back_->reason;
  Spread(std::move(failure), reason, now, effects);
}

void Roster::RememberError(Failure failure, TimePoint now) {
  if (FirstWithErrorOf(failure.report) == nullptr) errors_.emplace_back(now, std::move(failure));
}

const Failure* Roster::FirstWithErrorOf(const FailureReport& report) const {
  const auto first = std::ranges::find_if(errors_, [&](const auto& error) {
    const FailureReport& before = error.second.report;
    return before.step == report.step && before.message == report.message;
  });
  return first == errors_.end() || !report.lost ? nullptr : &first->second;
}

void Roster::FailToStart(Node& node, TimePoint now, Effects& effects) {
  EndStuck(node, Saying("start the node", LateStart(node.info, options_.start_timeout)),
           IsNewcomer(node) && MayLose(node), now, effects);
}

void Roster::EndStuck(Node& node, FailureReport report, bool bearable, TimePoint now,
                      Effects& effects) {
  if (bearable) report.message += WhyNobodyComes(node);
  const std::string message = report.message;
  Failure failure = FailureOf(node.info, std::move(report));
  if (bearable) {
    effects.push_back(TellAgent{node.info.node_id, Stop{message, options_.stop_grace}});
    Become(node, NodeState::kLost, message, now, effects);
    BlameHost(node, now);
    GoOnWithout(node, std::move(failure), now, effects);
    return;
  }
  Become(node, NodeState::kFailed, message, now, effects);
  Spread(std::move(failure), message, now, effects);
}

void Roster::Spread(Failure failure, const std::string& reason, TimePoint now, Effects& effects) {
  if (failure_.has_value()) return;
  // A failure that blames no node explains less than the error of one.
  if (failure.node_id < 0 && held_back_.has_value()) {
    SpreadHeldBack(now, effects);
    return;
  }
  const std::optional<HeldBack> held_back = std::exchange(held_back_, std::nullopt);
  failure_ = std::move(failure);
  stop_reason_ = reason;
  effects.push_back(TellDriver{ClusterFailed{*failure_}});
  StopEach({.reason = reason, .grace = options_.stop_grace}, now, effects);
  if (held_back.has_value() && held_back->stop) StopEach(*held_back->stop, now, effects);
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
    BlameHost(node, now);
    GoOnWithout(node, std::move(failure), now, effects);
    return;
  }
  Spread(std::move(failure), told, now, effects);
}

}  // namespace tfos::control
