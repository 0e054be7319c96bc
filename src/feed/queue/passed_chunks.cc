#include "feed/queue/passed_chunks.h"

#include <utility>

namespace tfos::feed {

bool PassedChunks::Add(const Origin& origin, const QueuedChunk& chunk) {
  if (origin.number != 0) {
    known_.erase(known_.begin(), known_.lower_bound({origin.epoch, 0, 0}));
    if (!known_.insert(NumberOf(origin)).second) return false;
  }
  waiting_[origin.epoch].push_back({.number = NumberOf(origin), .chunk = chunk});
  return true;
}

std::optional<QueuedChunk> PassedChunks::Take(std::uint32_t epoch) {
  const auto found = waiting_.find(epoch);
  if (found == waiting_.end()) return std::nullopt;
  const QueuedChunk chunk = found->second.front().chunk;
  found->second.pop_front();
  if (found->second.empty()) waiting_.erase(found);
  return chunk;
}

bool PassedChunks::Has(const Origin& origin) const { return known_.contains(NumberOf(origin)); }

std::vector<QueuedChunk> PassedChunks::Clear() {
  std::vector<QueuedChunk> all;
  for (const auto& [epoch, chunks] : std::exchange(waiting_, {})) {
    for (const Waiting& waiting : chunks) {
      known_.erase(waiting.number);
      all.push_back(waiting.chunk);
    }
  }
  return all;
}

}  // namespace tfos::feed
