#include "control/coordinator/roster/offices/generation_office.h"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "base/format.h"

namespace tfos::control {
namespace {

/// How often the same members may form a generation without progress.
constexpr int kMostInVain = 3;
/// A node that came, and has no state yet (GroupReady::lacks).
constexpr int kLacksAll = 2;

}  // namespace

void GenerationOffice::Begin(const Nodes& members) {
  for (const auto& [node_id, member] : members) members_.insert(node_id);
}

void GenerationOffice::Open(const std::string& reason, Outcome& outcome) {
  if (gathering_) return;
  gathering_ = true;
  ++generation_;
  ready_.clear();
  reason_ = reason;
  outcome.regroup = Regroup{.generation = generation_, .reason = reason};
}

GenerationOffice::Outcome GenerationOffice::Lost(int node_id, const std::string& reason,
                                                 const Nodes& nodes) {
  Outcome outcome;
  newcomers_.erase(node_id);
  left_.erase(node_id);
  ready_.erase(node_id);
  if (members_.erase(node_id) > 0) {
    lost_ = true;
    Open(reason, outcome);
  }
  FormIfComplete(nodes, outcome);
  return Finish(nodes, std::move(outcome));
}

GenerationOffice::Outcome GenerationOffice::Ready(int node_id, const GroupReady& ready,
                                                  const Nodes& nodes) {
  Outcome outcome;
  if (!members_.contains(node_id)) {
    if (!ready.leaves) newcomers_.insert(node_id);
    FormIfComplete(nodes, outcome);
    AskToMeet(nodes, outcome);
    return Finish(nodes, std::move(outcome));
  }
  committed_ = std::max(committed_, ready.committed);
  if (ready.leaves) left_.insert(node_id);
  if (!gathering_ && ready.generation == generation_ + 1) Open(ready.reason, outcome);
  if (gathering_ && ready.generation == generation_ && !ready.leaves) {
    ready_[node_id] = {.committed = ready.committed, .admits = ready.admits, .lacks = ready.lacks};
  }
  FormIfComplete(nodes, outcome);
  return Finish(nodes, std::move(outcome));
}

GenerationOffice::Outcome GenerationOffice::Ended(int node_id, const Nodes& nodes) {
  Outcome outcome;
  newcomers_.erase(node_id);
  FormIfComplete(nodes, outcome);
  return Finish(nodes, std::move(outcome));
}

GenerationOffice::Outcome GenerationOffice::SetOpen(bool is_open, const Nodes& nodes) {
  Outcome outcome;
  is_open_ = is_open;
  FormIfComplete(nodes, outcome);
  AskToMeet(nodes, outcome);
  return Finish(nodes, std::move(outcome));
}

GenerationOffice::Nodes GenerationOffice::Current(const Nodes& nodes) const {
  Nodes current;
  std::ranges::copy_if(nodes, std::inserter(current, current.end()), [this](const auto& node) {
    return members_.contains(node.first) && !left_.contains(node.first);
  });
  return current;
}

void GenerationOffice::FormIfComplete(const Nodes& nodes, Outcome& outcome) {
  if (!gathering_) return;
  const Nodes current = Current(nodes);
  if (current.empty()) {
    gathering_ = false;  // All others have left in order.
    return;
  }
  if (std::ranges::any_of(current, [this](const auto& n) { return !ready_.contains(n.first); })) {
    return;
  }
  const auto answers = std::views::values(ready_);
  const bool any_state = std::ranges::any_of(answers, [this](const Answer& answer) {
    return answer.lacks <= committed_ - answer.committed;
  });
  if (!any_state) {
    gathering_ = false;
    outcome.failure = fmt::format(
        "all nodes that had trained are lost, and those that came in their place have not got "
        "the weights yet: {}",
        reason_);
    return;
  }
  FormedGroup formed{.generation = generation_, .committed = committed_, .members = {}};
  formed.admits = std::ranges::all_of(answers, &Answer::admits);
  std::set<int> all = members_;
  std::set<int> came;
  for (const auto& [node_id, member] : nodes) {
    const bool comes = formed.admits && is_open_ && newcomers_.contains(node_id);
    if (!current.contains(node_id) && !comes) continue;
    if (comes) came.insert(node_id);
    all.insert(node_id);
    formed.members.push_back(member);
  }
  // They wait for others.
  if (formed.admits && is_open_ && static_cast<int>(all.size()) < least_) return;
  std::ranges::sort(formed.members, {}, &GroupMember::rank);
  gathering_ = false;
  members_ = std::move(all);
  if (formed.admits && is_open_) newcomers_.clear();
  in_vain_ = lost_ || committed_ > committed_before_ ? 0 : in_vain_ + 1;
  committed_before_ = committed_;
  lost_ = false;
  if (in_vain_ >= kMostInVain) {
    // Those that train may have no way to one that came, and had none to bring it the state.
    for (const auto& [node_id, answer] : ready_) {
      if (answer.lacks == kLacksAll) outcome.unreachable.insert(node_id);
    }
    in_vain_ = 0;
    if (!outcome.unreachable.empty()) return;
    outcome.failure = fmt::format(
        "the nodes that train together could not go on {} times, and none of them is lost: {}",
        kMostInVain, reason_);
    return;
  }
  outcome.formed = std::move(formed);
  outcome.came = std::move(came);
  AskToMeet(nodes, outcome);
}

void GenerationOffice::AskToMeet(const Nodes& nodes, Outcome& outcome) const {
  if (!is_open_ || (newcomers_.empty() && !is_below())) return;
  outcome.meet = Meet{.reason = DescribeWait(nodes)};
}

std::string GenerationOffice::DescribeWait(const Nodes& nodes) const {
  std::vector<std::string> parts;
  std::vector<std::string> names;
  const auto add = [&](const char* what) {
    if (!names.empty()) parts.push_back(fmt::format(fmt::runtime(what), fmt::join(names, ", ")));
    names.clear();
  };
  for (const auto& [node_id, member] : nodes) {
    if (newcomers_.contains(node_id)) names.push_back(member.name);
  }
  add("{} waits to join");
  if (gathering_) {
    for (const auto& [node_id, member] : Current(nodes)) {
      if (!ready_.contains(node_id)) names.push_back(member.name);
    }
    add("the others wait for {} to end its step");
  }
  if (is_below()) {
    parts.push_back(fmt::format("{} of at least {} nodes are there", there(), least_));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

GenerationOffice::Outcome GenerationOffice::Finish(const Nodes& nodes, Outcome outcome) const {
  for (const auto& [node_id, member] : Current(nodes)) outcome.members.insert(node_id);
  return outcome;
}

}  // namespace tfos::control
