#ifndef TFOS_FEED_READ_POSITION_EPOCH_LOG_H_
#define TFOS_FEED_READ_POSITION_EPOCH_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "feed/read/position/chunk_origin.h"
#include "feed/wire/item_ranges.h"

namespace tfos::feed {

/// What the batches of an epoch were made of, on one node: which rows of which chunks. So it can
/// say what a program has trained on after any number of batches, however many more it has asked
/// for.
///
/// Owner and lifetime: a reader. Threads: any. Errors: none. Units: rows and batches.
class EpochLog {
 public:
  /// A program may be asked about after so many batches fewer than it has got.
  static constexpr std::size_t kMostAhead = 4096;

  /// Rows of one chunk. Without an origin nobody knows which rows of the data these are.
  struct Part {
    std::shared_ptr<const ChunkOrigin> origin;
    ItemRange rows;
  };

  /// What one node has made batches of, and passed on to other nodes.
  struct Position {
    std::vector<Part> trained = {};  ///< By chunk; ranges that touch are one.
    /// Rows that other nodes know by these numbers.
    std::vector<std::pair<std::uint64_t, Part>> passed = {};
  };

  /// Batches are kept from now on. Idempotent.
  void Begin();
  /// The next batch of the epoch. One without rows may have no part.
  void OnBatch(std::uint32_t epoch, std::vector<Part> parts);
  /// Another pass takes batches of the epoch, too: nobody knows which ones a program trains on.
  void OnOtherPass();
  /// These rows are another node's now. They have the next number, from 1 on.
  void OnPassed(std::uint32_t epoch, Part part);

  /// Of the first `batches` of the epoch. None: it is not known. Then it does not keep them, or
  /// there were fewer or too many more, or it was asked for more before. Or rows have no origin,
  /// or those of two jobs, or several passes have taken them.
  std::optional<Position> Of(std::uint32_t epoch, std::uint64_t batches);
  /// How many batches of the epoch there were. None: it is not known, as it does not keep them, or
  /// they were forgotten.
  std::optional<std::uint64_t> BatchesOf(std::uint32_t epoch);

 private:
  struct Chunk {
    std::shared_ptr<const ChunkOrigin> origin;
    ItemRanges rows;
  };

  void Enter(std::uint32_t epoch) TFOS_REQUIRES(mutex_);
  /// Whether the rows have a place in the data that is known, or that another node knows.
  bool IsKnown(const Part& part) TFOS_REQUIRES(mutex_);
  /// Adds up the next batch that was not added yet.
  void AddUp() TFOS_REQUIRES(mutex_);

  Mutex mutex_;
  bool keeps_ TFOS_GUARDED_BY(mutex_) = false;
  std::optional<std::uint32_t> epoch_ TFOS_GUARDED_BY(mutex_);
  /// Of the first batches of the epoch, added up: each batch would take memory for the whole epoch.
  std::vector<Chunk> chunks_ TFOS_GUARDED_BY(mutex_);
  std::map<const ChunkOrigin*, std::size_t> places_ TFOS_GUARDED_BY(mutex_);  ///< In `chunks_`.
  std::uint64_t added_up_ TFOS_GUARDED_BY(mutex_) = 0;
  bool is_known_ TFOS_GUARDED_BY(mutex_) = true;  ///< All of their rows are.
  std::optional<JobId> job_ TFOS_GUARDED_BY(mutex_);
  std::deque<std::vector<Part>> batches_ TFOS_GUARDED_BY(mutex_);  ///< Those that follow.
  std::uint64_t pieces_passed_ TFOS_GUARDED_BY(mutex_) = 0;        ///< Of all epochs.
  std::vector<std::pair<std::uint64_t, Part>> passed_ TFOS_GUARDED_BY(mutex_);  ///< Of this one.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_POSITION_EPOCH_LOG_H_
