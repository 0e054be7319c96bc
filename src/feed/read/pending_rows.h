#ifndef TFOS_FEED_READ_PENDING_ROWS_H_
#define TFOS_FEED_READ_PENDING_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/buffer_pool.h"
#include "feed/read/batch.h"
#include "feed/read/chunk_opener.h"
#include "feed/read/position/epoch_log.h"
#include "feed/read/row_chunk.h"
#include "feed/wire/item_ranges.h"
#include "tfos/status.h"

namespace tfos::feed {

/// Rows of chunks that were taken from a queue and are part of the next batches, in their order.
///
/// Owner and lifetime: of a reader; has a share of the chunks. Threads: one at a time. Errors: what
/// fails leaves the rows as they were, except where a method says otherwise. Units: rows.
class PendingRows {
 public:
  /// Rows [first, first + count) of the chunk follow those that there are. `unread`: null unless
  /// the feeder is to be told when they were handed out.
  void Add(std::shared_ptr<const RowChunk> chunk, std::uint64_t first, std::uint64_t count,
           std::shared_ptr<LentMemory> unread = {});

  std::uint64_t rows() const { return rows_; }
  /// How many of them, the last ones, may be passed on to another node.
  std::uint64_t passable_rows() const;
  /// Feeders wait until they are read.
  bool until_read() const;

  /// Takes the first rows, `options.rows` or as many as there are, as a batch, and tells their
  /// feeders. It copies what does not lie in one piece, to memory of `pool`. `taking`, if there is
  /// one, hears what the rows are. Where it throws, they stay.
  using Taking = std::function<void(std::vector<EpochLog::Part> parts)>;
  Result<Batch> Take(const BatchOptions& options, BufferPool& pool, const Taking& taking = {});

  /// Takes rows from the end and hands them to `pass` (chunk, rows of the chunk), one chunk after
  /// the other. Returns how many of `rows` were not there. Where `pass` fails, its rows stay, and
  /// those that it took before are gone.
  /// `passed`, if there is one, hears of those that `pass` has taken.
  using PassRows = std::function<Status(std::span<const std::byte> chunk, const ItemRange& rows)>;
  using Passed = std::function<void(EpochLog::Part part)>;
  Result<std::uint64_t> PassOn(std::uint64_t rows, const PassRows& pass, const Passed& passed = {});

  /// Forgets all of them and tells the feeders. Returns how many there were.
  std::uint64_t Drop();

  /// Makes them independent of the feeders' memory. `keep_passable`: those that may be passed on
  /// still may. Each chunk is done or not when it fails: call it again.
  Status CopyFromFeeders(ChunkOpener& opener, bool keep_passable);

 private:
  /// Rows of one chunk.
  struct Piece {
    std::shared_ptr<const RowChunk> chunk;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::shared_ptr<LentMemory> unread = {};

    bool passable() const {
      return chunk->source != nullptr && !chunk->source->loan.bytes().empty();
    }
    /// Tells the feeder that the program has got the rows, or need not get them any more.
    void MarkRead() const;
    EpochLog::Part part() const;
  };

  std::deque<Piece> pieces_;
  std::uint64_t rows_ = 0;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_PENDING_ROWS_H_
