#include <algorithm>
#include <utility>

#include "base/format.h"
#include "control/coordinator/roster/node_words.h"
#include "control/coordinator/roster/roster.h"

// What becomes of a cluster that loses a node: docs/formats/generations.md.

namespace tfos::control {

Effects Roster::RecordReady(int node_id, const GroupReady& ready, TimePoint now) {
  Effects effects;
  Node* node = Find(node_id);
  if (node == nullptr || node->service || options_.min_nodes == 0) return effects;
  node->heard = now;
  if (IsFinal(node->info.state) || !stop_reason_.empty()) return effects;
  TellOfGeneration(generations_.Ready(node_id, ready, Training()), now, effects);
  return effects;
}

GenerationOffice::Members Roster::Training() const {
  GenerationOffice::Members members;
  int rank = 0;
  for (const Node& node : nodes_) {
    if (node.service) continue;
    const NodeInfo& info = node.info;
    if (node.connected && !IsFinal(info.state)) {
      members.emplace(info.node_id,
                      GroupMember{.rank = rank,
                                  .name = fmt::format("{}:{} on host {}", info.job_name,
                                                      info.task_index, info.host),
                                  .address = info.address,
                                  .port = info.tensor_port});
    }
    ++rank;
  }
  return members;
}

void Roster::TellOfGeneration(GenerationOffice::Outcome outcome, TimePoint now, Effects& effects) {
  for (const auto& [node_id, member] : Training()) {
    if (outcome.regroup) effects.push_back(TellAgent{node_id, *outcome.regroup});
    if (outcome.formed && std::ranges::count(outcome.formed->members, member) > 0) {
      effects.push_back(TellAgent{node_id, *outcome.formed});
    }
  }
  if (outcome.failure) {
    Spread(BlamingNobody(Saying("train together", *outcome.failure)), *outcome.failure, now,
           effects);
  }
}

void Roster::GoOnWithout(const std::string& reason, TimePoint now, Effects& effects) {
  Grant(step_tickets_.MembersChanged(Fed()), effects);
  if (options_.min_nodes > 0) TellOfGeneration(generations_.Lost(reason, Training()), now, effects);
}

bool Roster::MayLose(const Node& node) const {
  const auto chief = std::ranges::find(nodes_, false, &Node::service);
  const auto lost = std::ranges::count_if(nodes_, [](const Node& other) {
    return !other.service && other.info.state == NodeState::kLost;
  });
  if (!formed_at_.has_value() || !stop_reason_.empty() || node.service) return false;
  if (options_.min_nodes > 0) {
    const auto training = std::ranges::count(nodes_, false, &Node::service);
    return training - lost > options_.min_nodes;
  }
  return &node != &*chief && lost < options_.max_lost_nodes;
}

void Roster::Lose(Node& node, const std::string& detail, const std::string& message, TimePoint now,
                  Effects& effects) {
  const bool bearable = MayLose(node);
  // A node that had ended before has nothing left to lose.
  const std::string why = BecauseItLeft(node.info);
  if (!Become(node, NodeState::kLost, detail + why, now, effects)) return;
  if (bearable) {
    GoOnWithout(message + why, now, effects);
    return;
  }
  const std::string told = message + why;
  Spread(FailureOf(node.info, Saying("watch the node", told)), told, now, effects);
}

}  // namespace tfos::control
