#ifndef TFOS_FEED_NODE_SESSION_CHUNK_LOAN_H_
#define TFOS_FEED_NODE_SESSION_CHUNK_LOAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "feed/queue/cached_epoch.h"
#include "feed/queue/feed_queue.h"
#include "feed/wire/item_ranges.h"
#include "feed/wire/region.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

/// Whose memory the chunks of feeders are. Threads: any.
class ChunkLender {
 public:
  virtual ~ChunkLender() = default;
  virtual Result<PrivateView> MapPrivately(const QueuedChunk& chunk) const = 0;
  virtual void MarkRead(std::uint64_t session, std::uint64_t number, std::uint64_t rows) = 0;
  virtual void Release(std::uint64_t session, std::uint64_t number) = 0;
};

/// What a loan says of the partition that the chunk is of.
struct LentPartition {
  PartitionKey key = {};
  AttemptId attempt = 0;  ///< With kPass: the number of what is passed on.
  Mode mode = Mode::kTrain;
  bool until_read = false;
};

/// A chunk lent to a consumer. Its memory belongs to the feeder again after Release, unless it is
/// one of an epoch that is cached.
///
/// Owner and lifetime: move-only; releases on destruction. It may outlive the FeedServer, and
/// a chunk of a feeder that is gone stays readable until released.
/// Threads: any one at a time, and another one than took it. Errors: none.
///
/// Unless `is_private`, the bytes lie in memory that their feeder can still write to: a parser
/// reads each size once and checks what it read.
class ChunkLoan {
 public:
  ChunkLoan() = default;
  /// A loan of a feeder's chunk, until given back to `lender`.
  ChunkLoan(std::shared_ptr<ChunkLender> lender, const QueuedChunk& chunk,
            const LentPartition& partition);
  /// A loan of a chunk of a cached epoch.
  explicit ChunkLoan(CachedEpoch::Chunk cached);
  ChunkLoan(ChunkLoan&&) noexcept = default;
  ChunkLoan& operator=(ChunkLoan&& other) noexcept;
  ~ChunkLoan() { Release(); }

  /// Starts at a multiple of 64 bytes. Empty after Release.
  std::span<const std::byte> bytes() const;
  /// Nobody writes to the bytes, and nobody waits for their memory: keep them at will.
  bool is_private() const;
  /// The same bytes in a mapping of their own, which can be made independent of the feeder's
  /// memory and then outlives the loan. For a loan that is neither empty nor private.
  Result<PrivateView> MapPrivately() const;
  std::uint64_t items() const;
  std::uint64_t first_item() const;
  std::uint64_t session() const;
  std::uint32_t partition() const;
  Mode mode() const;
  /// One of an epoch that is cached: of what partition it was is not known.
  bool is_cached() const;
  /// The job that has brought it, and with kPass the number of what is passed on.
  JobId job() const;
  AttemptId attempt() const;
  /// As its feeder says.
  std::uint32_t checksum() const;

  /// The first rows of the chunk, which the program of another node has read: pass over them.
  std::uint64_t rows_read() const;
  /// Rows that an earlier cluster has trained on: pass over them, too.
  const ItemRanges& trained_before() const;
  /// None of its rows are for this node: it says what rows hold, to a node that has got none.
  bool is_sample() const;
  /// The feeder wants to know what the program has read: say so with MarkRead.
  bool until_read() const;
  /// The program has got the first `rows` rows of the chunk, those of `rows_read` included; all of
  /// them with ReadTracker::kAllRows. Release says that, too.
  void MarkRead(std::uint64_t rows) const;

  void Release();

 private:
  struct Rep;

  std::shared_ptr<Rep> rep_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_SESSION_CHUNK_LOAN_H_
