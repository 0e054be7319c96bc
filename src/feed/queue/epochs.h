#ifndef TFOS_FEED_QUEUE_EPOCHS_H_
#define TFOS_FEED_QUEUE_EPOCHS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "feed/queue/cached_epoch.h"
#include "feed/queue/feed_queue.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

/// The epochs of one queue: which has not ended yet, what of it is kept for its replays, and the
/// chunks, marks and replays that consumers get.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: kBadInput for an epoch that can't
/// be meant.
class Epochs {
 public:
  using MakeCache = std::function<std::shared_ptr<CachedEpoch>(CachePlace place)>;

  /// Chunks go in here; their way out is Take.
  FeedQueue& chunks() { return chunks_; }
  const FeedQueue& chunks() const { return chunks_; }
  /// The first that has not ended.
  std::uint64_t first_open() const { return first_open_; }

  /// Whether a partition of `epoch` may be opened, with so many replays.
  Status Check(std::uint64_t epoch, std::uint32_t replays) const;
  /// Puts a mark for each epoch before `epoch` that has none behind the chunks, and behind a mark
  /// the replays of its epoch, which end by themselves.
  void EndBefore(std::uint64_t epoch);

  struct Place {
    std::shared_ptr<CachedEpoch> cache = nullptr;    ///< Null: the chunks are not kept.
    std::shared_ptr<CachedEpoch> dropped = nullptr;  ///< Freeing it takes a while.
  };
  /// Where the chunks of a partition are kept: nowhere when its epoch is not replayed, or is over.
  /// The partitions of an epoch are one job's. If another job comes, the earlier one was
  /// interrupted: what was kept of it is part of an epoch, so it is dropped and never replayed.
  Place CacheFor(const SessionOptions& options, const MakeCache& make);
  /// A job was interrupted: nothing of it is kept for replays any more. Returns what was. Nothing
  /// happens once another job feeds the epoch.
  std::shared_ptr<CachedEpoch> Abandon(std::uint32_t epoch, const JobId& job);
  /// A consumer that took a chunk copies it to the cache; until it has, no replay begins.
  void BeginCopy() { ++copying_; }
  void EndCopy() { --copying_; }

  /// The next thing for a consumer, if there is one now.
  std::optional<FeedQueue::Item> Take();
  /// Nothing comes until another chunk or mark is put in or a copy ends; false while one is made.
  bool settled() const { return !(chunks_.at_replay() && copying_ > 0); }

  /// Drops everything.
  FeedQueue::Dropped Clear();

 private:
  /// An epoch that is being fed.
  struct Fed {
    JobId job{};
    /// The first that came of the job. Attempts grow, so those of an earlier job are below it.
    AttemptId attempt = 0;
    ReplayOptions options = {};
    std::shared_ptr<CachedEpoch> cache = nullptr;  ///< Null: nothing is kept so far.
    bool abandoned = false;                        ///< Nothing is kept of the job any more.
  };

  FeedQueue chunks_;
  std::uint64_t first_open_ = 0;
  std::map<std::uint64_t, Fed> fed_;  ///< By epoch, until its end is queued.
  std::size_t copying_ = 0;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_QUEUE_EPOCHS_H_
