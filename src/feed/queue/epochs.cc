#include "feed/queue/epochs.h"

#include <utility>

#include "base/format.h"

namespace tfos::feed {
namespace {

/// Epochs without a row for this node, and of whose end it has not heard, before one with some.
/// Also marks that nobody has taken before more are put in.
constexpr std::uint64_t kMostEpochsAhead = 1 << 16;

}  // namespace

Status Epochs::Check(std::uint64_t epoch, std::uint32_t replays) const {
  if (epoch > first_open_ && chunks_.waiting_epoch_ends() > kMostEpochsAhead) {
    return {ErrorKind::kBadInput,
            fmt::format("a partition of epoch {} before the program has taken {} of the ends of "
                        "epochs before it",
                        epoch, chunks_.waiting_epoch_ends())};
  }
  if (replays > kMostEpochsAhead) {
    return {ErrorKind::kBadInput,
            fmt::format("rows that are to be cached for {} more epochs; {} is the most. Divide the "
                        "epochs among several calls of train",
                        replays, kMostEpochsAhead)};
  }
  if (epoch <= first_open_ + kMostEpochsAhead) return {};
  return {ErrorKind::kBadInput,
          fmt::format("a partition of epoch {} in epoch {}", epoch, first_open_)};
}

void Epochs::EndBefore(std::uint64_t epoch) {
  while (first_open_ < epoch) {
    const auto ended = static_cast<std::uint32_t>(first_open_++);
    chunks_.PushEpochEnd(ended);
    const auto fed = fed_.find(ended);
    if (fed == fed_.end()) continue;
    if (fed->second.cache != nullptr) {
      first_open_ += fed->second.options.epochs;
      chunks_.PushReplay(std::move(fed->second.cache), fed->second.options, ended + 1);
    }
    fed_.erase(fed);
  }
}

Epochs::Place Epochs::CacheFor(const SessionOptions& options, const MakeCache& make) {
  // A late attempt at a partition of an epoch that is over brings nothing.
  if (options.mode != Mode::kTrain || options.key.epoch < first_open_) return {};
  const auto [found, is_first] = fed_.try_emplace(options.key.epoch);
  Fed& fed = found->second;
  Place place;
  if (is_first || fed.job != options.key.job) {
    // A task of a job that was interrupted, which Spark has not ended yet.
    if (!is_first && options.attempt < fed.attempt) return {};
    place.dropped = std::move(fed.cache);
    fed = {.job = options.key.job, .attempt = options.attempt};
  }
  // A session that brings a sample of the rows keeps nothing, whatever others of its job do.
  const ReplayOptions& replay = options.replay;
  if (replay.place == CachePlace::kNone || replay.epochs == 0 || fed.abandoned) return place;
  if (fed.cache == nullptr) {
    fed.options = replay;
    fed.cache = make(replay.place);
  }
  place.cache = fed.cache;
  return place;
}

std::shared_ptr<CachedEpoch> Epochs::Abandon(std::uint32_t epoch, const JobId& job) {
  if (epoch < first_open_) return nullptr;
  const auto [found, is_first] = fed_.try_emplace(epoch);
  Fed& fed = found->second;
  // One of its tasks may still come.
  if (is_first) fed.job = job;
  if (fed.job != job) return nullptr;
  fed.abandoned = true;
  return std::exchange(fed.cache, nullptr);
}

std::optional<FeedQueue::Item> Epochs::Take() {
  if (!settled()) return std::nullopt;
  return chunks_.Take();
}

FeedQueue::Dropped Epochs::Clear() {
  FeedQueue::Dropped dropped = chunks_.Clear();
  for (auto& [epoch, fed] : std::exchange(fed_, {})) {
    if (fed.cache != nullptr) dropped.caches.push_back(std::move(fed.cache));
  }
  return dropped;
}

}  // namespace tfos::feed
