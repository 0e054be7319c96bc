#include "feed/feeder/nodes/feed_balancer.h"

#include <algorithm>
#include <optional>

namespace tfos::feed {
namespace {

bool KeepsUp(const BalanceCandidate& node) { return node.free_bytes >= node.capacity_bytes / 2; }

bool Better(const BalanceCandidate& a, const BalanceCandidate& b) {
  if (KeepsUp(a) != KeepsUp(b)) return KeepsUp(a);
  if (KeepsUp(a) || a.free_bytes == b.free_bytes) return a.accepted < b.accepted;
  return a.free_bytes > b.free_bytes;
}

}  // namespace

bool LagsBehind(const AcceptedBytes& remote, const AcceptedBytes& here) {
  const std::uint64_t worth = remote.of_epoch == 0 ? kWorthTheFirst : kWorthTheWay;
  if (remote.of_epoch + remote.of_epoch / 8 + worth < here.of_epoch) return true;
  return remote.of_epoch <= here.of_epoch && remote.of_all + remote.of_all / 8 < here.of_all;
}

BalanceChoice ChooseNode(std::span<const BalanceCandidate> candidates, std::uint64_t bytes,
                         bool anywhere) {
  BalanceChoice choice;
  std::optional<AcceptedBytes> accepted_here;  // By that node of this host which has least.
  for (const BalanceCandidate& candidate : candidates) {
    if (candidate.remote) continue;
    accepted_here = std::min(accepted_here.value_or(candidate.accepted), candidate.accepted);
  }
  bool lags = false;  // The chosen one.
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const BalanceCandidate& candidate = candidates[i];
    const bool has_room = candidate.free_bytes >= std::min(bytes, candidate.capacity_bytes);
    const bool lagging =
        candidate.remote && accepted_here && LagsBehind(candidate.accepted, *accepted_here);
    if (!has_room || (candidate.remote && accepted_here && !lagging && !anywhere)) {
      continue;
    }
    const bool better = choice.action != BalanceChoice::Action::kSend ||
                        (lagging != lags ? lagging : Better(candidate, candidates[choice.index]));
    if (!better) continue;
    choice = {BalanceChoice::Action::kSend, i};
    lags = lagging;
  }
  return choice;
}

}  // namespace tfos::feed
