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
  if (epoch <= first_open_ + kMostEpochsAhead && replays <= kMostEpochsAhead) return {};
  return {ErrorKind::kBadInput, fmt::format("a partition of epoch {} with {} replays in epoch {}",
                                            epoch, replays, first_open_)};
}

void Epochs::EndBefore(std::uint64_t epoch) {
  while (first_open_ < epoch) {
    const auto ended = static_cast<std::uint32_t>(first_open_++);
    chunks_.PushEpochEnd(ended);
    const auto cached = cached_.find(ended);
    if (cached == cached_.end()) continue;
    chunks_.PushReplay(cached->second.epoch, cached->second.options, ended + 1);
    first_open_ += cached->second.options.epochs;
    cached_.erase(cached);
  }
}

std::shared_ptr<CachedEpoch> Epochs::CacheFor(const SessionOptions& options,
                                              const MakeCache& make) {
  const ReplayOptions& replay = options.replay;
  // A late attempt at a partition of an epoch that is over brings nothing.
  if (options.mode != Mode::kTrain || replay.place == CachePlace::kNone || replay.epochs == 0 ||
      options.key.epoch < first_open_) {
    return nullptr;
  }
  Cached& cached = cached_[options.key.epoch];
  if (cached.epoch == nullptr) cached = {.epoch = make(replay.place), .options = replay};
  return cached.epoch;
}

std::optional<FeedQueue::Item> Epochs::Take() {
  if (!settled()) return std::nullopt;
  return chunks_.Take();
}

FeedQueue::Dropped Epochs::Clear() {
  FeedQueue::Dropped dropped = chunks_.Clear();
  for (auto& [epoch, cached] : std::exchange(cached_, {})) {
    dropped.caches.push_back(std::move(cached.epoch));
  }
  return dropped;
}

}  // namespace tfos::feed
