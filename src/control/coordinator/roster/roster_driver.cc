#include <utility>

#include "base/format.h"
#include "control/coordinator/roster/node_words.h"
#include "control/coordinator/roster/roster.h"

// What the driver says of the cluster, its feeds and its end.

namespace tfos::control {

Effects Roster::EndJob(const control::EndJob& ended) { return TellFed(ended); }

Effects Roster::AbandonEpoch(const control::AbandonEpoch& abandoned) { return TellFed(abandoned); }

Effects Roster::TellFed(const AgentCommand& command) const {
  Effects effects;
  for (const Node& node : nodes_) {
    if (!node.service && node.connected) effects.push_back(TellAgent{node.info.node_id, command});
  }
  return effects;
}

const char* Roster::WordsOfFeedEnd() const { return feed_ended_at_once_ ? kFeedStopped : kAllFed; }

void Roster::DrainAsFed(Node& node, TimePoint now, Effects& effects) {
  const std::string own = node.info.detail == node.detail_of_state ? "" : node.info.detail;
  Become(node, NodeState::kDraining, WordsOfFeedEnd(), now, effects);
  if (own.empty()) return;
  // The node says once that it evaluates, and still does.
  node.info.detail = own;
  effects.back() = TellDriver{NodeChanged{Info(node, now)}};
}

Effects Roster::EndFeed(const control::EndFeed& ended, TimePoint now) {
  Effects effects;
  const bool is_news = !feed_ended_ || (ended.at_once && !feed_ended_at_once_);
  feed_ended_ = true;
  feed_ended_at_once_ = feed_ended_at_once_ || ended.at_once;
  if (!is_news) return effects;
  for (Node& node : nodes_) {
    if (node.service || !node.connected || !formed_at_.has_value()) continue;
    if (IsNewcomer(node)) {
      StopLate(node, "it came too late: no more rows will come", now, effects);
      continue;
    }
    effects.push_back(TellAgent{node.info.node_id, control::EndFeed{feed_ended_at_once_}});
    if (node.info.state == NodeState::kRunning) {
      DrainAsFed(node, now, effects);
    } else if (node.info.state == NodeState::kDraining) {
      if (node.info.detail == node.detail_of_state) node.info.detail = WordsOfFeedEnd();
      node.detail_of_state = WordsOfFeedEnd();
      effects.push_back(TellDriver{NodeChanged{Info(node, now)}});
    }
  }
  // They know by then that the feed is over.
  if (feed_ended_at_once_) Grant(step_tickets_.Stop(Fed()), effects);
  if (is_elastic() && formed_at_.has_value() && stop_reason_.empty()) {
    begun_epoch_.reset();
    TellOfGeneration(generations_.SetOpen(false, Training()), now, effects);
  }
  return effects;
}

Effects Roster::Leave(const NodeLeaving& leaving, TimePoint now) {
  Effects effects;
  Node* leaver = Find(leaving.node_id);
  if (leaver == nullptr || IsFinal(leaver->info.state)) return effects;
  leaver->info.leaving = leaving.reason;
  effects.push_back(TellDriver{NodeChanged{Info(*leaver, now)}});
  TellAll(leaving, effects);
  return effects;
}

void Roster::TellAll(const NodeLeaving& leaving, Effects& effects) const {
  for (const Node& node : nodes_) {
    if (node.connected) effects.push_back(TellAgent{node.info.node_id, leaving});
  }
}

Effects Roster::StopAll(const Stop& stop, TimePoint now) {
  Effects effects;
  if (held_back_.has_value()) {
    held_back_->stop = stop;
    return effects;
  }
  if (stop_reason_.empty()) {
    stop_reason_ = stop.reason.empty() ? "the driver asked for it" : stop.reason;
  }
  StopEach(stop, now, effects);
  CheckFinished(effects);
  return effects;
}

void Roster::StopEach(const Stop& stop, TimePoint now, Effects& effects) {
  for (Node& node : nodes_) {
    if (node.info.state == NodeState::kExpected) {
      Become(node, NodeState::kLost, "never started: " + stop.reason, now, effects);
    } else if (node.connected) {
      effects.push_back(TellAgent{node.info.node_id, stop});
      if (is_elastic() && !node.service) {
        effects.push_back(TellAgent{node.info.node_id, NoGroup{NoGroupAtStop(stop.reason)}});
      }
      Become(node, NodeState::kDraining, kStopping + stop.reason, now, effects);
    }
  }
}

Effects Roster::FailFromDriver(const DriverFailure& failure, TimePoint now) {
  Effects effects;
  Node* node = Find(failure.node_id);
  const bool follows = held_back_.has_value() &&
                       (node == nullptr || !Names(held_back_->failure.report.message, node->info));
  if (follows) return effects;  // From that failure, or from its cause.
  if (node == nullptr) {
    Spread(BlamingNobody(failure.report), failure.report.message, now, effects);
  } else {
    Spread(FailureOf(node->info, failure.report), failure.report.message, now, effects);
  }
  CheckFinished(effects);
  return effects;
}

}  // namespace tfos::control
