#ifndef TFOS_FEED_QUEUE_FEED_QUEUE_H_
#define TFOS_FEED_QUEUE_FEED_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "feed/queue/cached_epoch.h"
#include "feed/wire/item_ranges.h"
#include "feed/wire/read_position.h"
#include "feed/wire/session.h"

namespace tfos::feed {

/// A chunk that waits for a consumer.
struct QueuedChunk {
  std::uint64_t session = 0;
  std::uint64_t number = 0;  ///< Its block in the session's ring.
  std::span<const std::byte> bytes;
  std::uint64_t first = 0;  ///< Its first item, counted from the partition's start.
  std::uint64_t items = 0;
  std::uint64_t rows_read = 0;  ///< Its first rows, which are not for this node's program.
  std::uint32_t checksum = 0;   ///< As its feeder says: for later attempts at the partition.
  /// Rows that an earlier cluster has trained on, so they are not for the program. Null: none.
  std::shared_ptr<const ItemRanges> trained_before = nullptr;
};

/// Says what rows hold, to a node that has none: other nodes' programs read all of it.
inline bool IsSample(const QueuedChunk& chunk) {
  return chunk.items == 0 && chunk.rows_read == ReadTracker::kAllRows;
}

/// The order in which consumers get the chunks of one queue.
///
/// Train chunks come in order of arrival, whoever sent them, and epoch marks in their place among
/// them; a replay gives the chunks of an epoch again, epoch after epoch, before what arrived later.
/// Inference sessions come one after the other: the first that has something to give becomes the
/// current one and stays so until its end was taken.
///
/// Owner and lifetime: a value; it does not own the chunks' bytes. Threads: one at a time.
/// Errors: none.
class FeedQueue {
 public:
  struct SessionEnd {
    std::uint64_t session = 0;
    std::uint32_t partition = 0;
    bool broken = false;
  };
  /// All train chunks of an epoch come before this.
  struct EpochEnd {
    std::uint32_t epoch = 0;
    /// The cache whose last replay ended. It goes with the item, as freeing it takes a while.
    std::shared_ptr<const CachedEpoch> replayed = nullptr;
  };
  /// A chunk that was kept.
  struct CachedChunk {
    std::shared_ptr<const CachedEpoch> epoch;
    std::size_t index = 0;
  };
  using Item = std::variant<QueuedChunk, CachedChunk, SessionEnd, EpochEnd>;

  void PushTrain(const QueuedChunk& chunk);
  /// Drops the chunks of a training session that nobody has taken, and returns them.
  std::vector<QueuedChunk> WithdrawTrain(std::uint64_t session);
  void PushEpochEnd(std::uint32_t epoch);
  /// How many of those nobody has taken yet.
  std::size_t waiting_epoch_ends() const { return waiting_epoch_ends_; }
  /// `cache` is complete once everything before the replay was taken. The epochs that it makes, of
  /// which there is at least one, count on from `first_epoch`.
  void PushReplay(std::shared_ptr<const CachedEpoch> cache, const ReplayOptions& options,
                  std::uint32_t first_epoch);
  /// Whether a replay comes next.
  bool at_replay() const;

  // Inference: a session is added before its chunks.
  void AddSession(std::uint64_t session, std::uint32_t partition);
  void PushInference(const QueuedChunk& chunk);
  void EndSession(std::uint64_t session);
  /// Drops the session and returns its chunks. If consumers have seen some of it, they get its
  /// end as broken.
  std::vector<QueuedChunk> BreakSession(std::uint64_t session);

  struct Dropped {
    std::vector<QueuedChunk> chunks;
    /// The caches of replays that will not be. Freeing them takes a while.
    std::vector<std::shared_ptr<const CachedEpoch>> caches;
  };
  /// Drops everything.
  Dropped Clear();

  /// The next thing for a consumer, if there is one now.
  std::optional<Item> Take();

  /// The inference session whose end is to be taken before any other one's chunks.
  std::optional<std::uint64_t> current() const { return current_; }

 private:
  struct Session {
    std::uint64_t id = 0;
    std::uint32_t partition = 0;
    std::deque<QueuedChunk> chunks;
    bool ended = false;
    bool broken = false;
  };
  struct Replay {
    std::shared_ptr<const CachedEpoch> cache;
    ReplayOptions options;
    std::uint32_t epoch = 0;         ///< The one being given.
    bool begun = false;              ///< `order` is that of this epoch.
    std::vector<std::size_t> order;  ///< Of the chunks.
    std::size_t next = 0;

    void Begin();
  };
  std::list<Session>::iterator Find(std::uint64_t session);
  Item TakeReplayed();

  std::deque<std::variant<QueuedChunk, EpochEnd, Replay>> train_;
  std::size_t waiting_epoch_ends_ = 0;
  std::list<Session> sessions_;  ///< In order of AddSession.
  std::optional<std::uint64_t> current_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_QUEUE_FEED_QUEUE_H_
