#include "feed/queue/passed_chunks.h"

#include <utility>

namespace tfos::feed {

bool PassedChunks::Add(const Origin& origin, const QueuedChunk& chunk) {
  if (origin.number != 0) {
    known_.erase(known_.begin(), known_.lower_bound({origin.epoch, 0, 0}));
    if (!known_.insert({origin.epoch, origin.giver, origin.number}).second) return false;
  }
  waiting_[origin.epoch].push_back(chunk);
  return true;
}

std::optional<QueuedChunk> PassedChunks::Take(std::uint32_t epoch) {
  const auto found = waiting_.find(epoch);
  if (found == waiting_.end()) return std::nullopt;
  const QueuedChunk chunk = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) waiting_.erase(found);
  return chunk;
}

std::vector<QueuedChunk> PassedChunks::Clear() {
  std::vector<QueuedChunk> all;
  for (const auto& [epoch, chunks] : std::exchange(waiting_, {})) {
    all.insert(all.end(), chunks.begin(), chunks.end());
  }
  return all;
}

}  // namespace tfos::feed
