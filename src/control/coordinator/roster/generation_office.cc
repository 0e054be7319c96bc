#include "control/coordinator/roster/generation_office.h"

#include <algorithm>

#include "base/format.h"

namespace tfos::control {
namespace {

/// So often a generation may be formed of the same members without that they get anywhere.
constexpr int kMostInVain = 3;

}  // namespace

void GenerationOffice::Open(const std::string& reason, Outcome& outcome) {
  if (gathering_) return;
  gathering_ = true;
  ++generation_;
  ready_.clear();
  reason_ = reason;
  outcome.regroup = Regroup{.generation = generation_, .reason = reason};
}

GenerationOffice::Outcome GenerationOffice::Lost(const std::string& reason,
                                                 const Members& members) {
  Outcome outcome;
  lost_ = true;
  Open(reason, outcome);
  FormIfComplete(members, outcome);
  return outcome;
}

GenerationOffice::Outcome GenerationOffice::Ready(int node_id, const GroupReady& ready,
                                                  const Members& members) {
  Outcome outcome;
  committed_ = std::max(committed_, ready.committed);
  if (ready.leaves) left_.insert(node_id);
  if (!gathering_ && ready.generation == generation_ + 1) Open(ready.reason, outcome);
  if (gathering_ && ready.generation == generation_) ready_.insert(node_id);
  FormIfComplete(members, outcome);
  return outcome;
}

GenerationOffice::Outcome GenerationOffice::MembersChanged(const Members& members) {
  Outcome outcome;
  FormIfComplete(members, outcome);
  return outcome;
}

void GenerationOffice::FormIfComplete(const Members& members, Outcome& outcome) {
  if (!gathering_) return;
  FormedGroup formed{.generation = generation_, .committed = committed_, .members = {}};
  for (const auto& [node_id, member] : members) {
    if (left_.contains(node_id)) continue;
    if (!ready_.contains(node_id)) return;
    formed.members.push_back(member);
  }
  gathering_ = false;
  if (formed.members.empty()) return;  // All others have left in order.
  in_vain_ = lost_ || committed_ > committed_before_ ? 0 : in_vain_ + 1;
  committed_before_ = committed_;
  lost_ = false;
  if (in_vain_ >= kMostInVain) {
    outcome.failure = fmt::format(
        "the nodes that train together could not go on {} times, and none of them is lost: {}",
        kMostInVain, reason_);
    return;
  }
  outcome.formed = std::move(formed);
}

}  // namespace tfos::control
