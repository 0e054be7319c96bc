#include "feed/feed_balancer.h"

#include <algorithm>

namespace tfos::feed {
namespace {

bool KeepsUp(const BalanceCandidate& node) { return node.free_bytes >= node.capacity_bytes / 2; }

bool Better(const BalanceCandidate& a, const BalanceCandidate& b) {
  if (KeepsUp(a) != KeepsUp(b)) return KeepsUp(a);
  if (KeepsUp(a) || a.free_bytes == b.free_bytes) return a.accepted_bytes < b.accepted_bytes;
  return a.free_bytes > b.free_bytes;
}

}  // namespace

BalanceChoice ChooseNode(std::span<const BalanceCandidate> candidates, std::uint64_t bytes) {
  BalanceChoice choice;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const BalanceCandidate& candidate = candidates[i];
    if (candidate.stopped) continue;
    const bool has_room = candidate.free_bytes >= std::min(bytes, candidate.capacity_bytes);
    if (!has_room) {
      if (choice.action == BalanceChoice::Action::kDiscard) {
        choice.action = BalanceChoice::Action::kWait;
      }
    } else if (choice.action != BalanceChoice::Action::kSend ||
               Better(candidate, candidates[choice.index])) {
      choice = {BalanceChoice::Action::kSend, i};
    }
  }
  return choice;
}

}  // namespace tfos::feed
