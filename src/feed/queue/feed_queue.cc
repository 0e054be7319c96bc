#include "feed/queue/feed_queue.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>
#include <utility>

namespace tfos::feed {

std::list<FeedQueue::Session>::iterator FeedQueue::Find(std::uint64_t session) {
  return std::find_if(sessions_.begin(), sessions_.end(),
                      [session](const Session& known) { return known.id == session; });
}

void FeedQueue::PushTrain(const QueuedChunk& chunk) { train_.push_back(chunk); }

std::vector<QueuedChunk> FeedQueue::WithdrawTrain(std::uint64_t session) {
  std::vector<QueuedChunk> withdrawn;
  std::erase_if(train_, [&](const auto& item) {
    const auto* chunk = std::get_if<QueuedChunk>(&item);
    if (chunk == nullptr || chunk->session != session) return false;
    withdrawn.push_back(*chunk);
    return true;
  });
  return withdrawn;
}

void FeedQueue::PushEpochEnd(std::uint32_t epoch) {
  train_.push_back(EpochEnd{.epoch = epoch});
  ++waiting_epoch_ends_;
}

void FeedQueue::PushReplay(std::shared_ptr<const CachedEpoch> cache, const ReplayOptions& options,
                           std::uint32_t first_epoch) {
  train_.push_back(
      Replay{.cache = std::move(cache), .options = options, .epoch = first_epoch, .order = {}});
}

bool FeedQueue::at_replay() const {
  return !current_ && !train_.empty() && std::holds_alternative<Replay>(train_.front());
}

void FeedQueue::Replay::Begin() {
  begun = true;
  next = 0;
  order.resize(cache->chunks());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (options.shuffle_seed == 0) return;
  std::seed_seq seed{options.shuffle_seed, options.shuffle_seed >> 32, std::uint64_t{epoch}};
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
}

FeedQueue::Item FeedQueue::TakeReplayed() {
  auto& replay = std::get<Replay>(train_.front());
  if (!replay.begun) replay.Begin();
  if (replay.next < replay.order.size()) {
    return CachedChunk{.epoch = replay.cache, .index = replay.order[replay.next++]};
  }
  EpochEnd end{.epoch = replay.epoch++};
  replay.begun = false;
  if (--replay.options.epochs == 0) {
    end.replayed = std::move(replay.cache);
    train_.pop_front();
  }
  return end;
}

void FeedQueue::AddSession(std::uint64_t session, std::uint32_t partition) {
  sessions_.push_back({.id = session, .partition = partition, .chunks = {}});
}

void FeedQueue::PushInference(const QueuedChunk& chunk) {
  const auto it = Find(chunk.session);
  if (it != sessions_.end()) it->chunks.push_back(chunk);
}

void FeedQueue::EndSession(std::uint64_t session) {
  const auto it = Find(session);
  if (it != sessions_.end()) it->ended = true;
}

std::vector<QueuedChunk> FeedQueue::BreakSession(std::uint64_t session) {
  const auto it = Find(session);
  if (it == sessions_.end()) return {};
  std::vector<QueuedChunk> dropped(it->chunks.begin(), it->chunks.end());
  if (current_ == session) {
    it->chunks.clear();
    it->ended = true;
    it->broken = true;
  } else {
    sessions_.erase(it);
  }
  return dropped;
}

FeedQueue::Dropped FeedQueue::Clear() {
  Dropped dropped;
  for (auto& item : train_) {
    if (const auto* chunk = std::get_if<QueuedChunk>(&item)) dropped.chunks.push_back(*chunk);
    if (auto* replay = std::get_if<Replay>(&item)) {
      dropped.caches.push_back(std::move(replay->cache));
    }
  }
  for (const Session& session : sessions_) {
    dropped.chunks.insert(dropped.chunks.end(), session.chunks.begin(), session.chunks.end());
  }
  train_.clear();
  waiting_epoch_ends_ = 0;
  sessions_.clear();
  current_.reset();
  return dropped;
}

std::optional<FeedQueue::Item> FeedQueue::Take() {
  if (!current_) {
    if (at_replay()) return TakeReplayed();
    if (!train_.empty()) {
      const auto item = train_.front();
      train_.pop_front();
      if (const auto* chunk = std::get_if<QueuedChunk>(&item)) return *chunk;
      --waiting_epoch_ends_;
      return std::get<EpochEnd>(item);
    }
    const auto ready = std::find_if(sessions_.begin(), sessions_.end(), [](const Session& session) {
      return session.ended || !session.chunks.empty();
    });
    if (ready == sessions_.end()) return std::nullopt;
    current_ = ready->id;
  }
  const auto it = Find(*current_);
  if (!it->chunks.empty()) {
    const QueuedChunk chunk = it->chunks.front();
    it->chunks.pop_front();
    return chunk;
  }
  if (!it->ended) return std::nullopt;
  const SessionEnd end{.session = it->id, .partition = it->partition, .broken = it->broken};
  sessions_.erase(it);
  current_.reset();
  return end;
}

}  // namespace tfos::feed
