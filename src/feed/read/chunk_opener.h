#ifndef TFOS_FEED_READ_CHUNK_OPENER_H_
#define TFOS_FEED_READ_CHUNK_OPENER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/aligned_buffer.h"
#include "base/memory/buffer_pool.h"
#include "chunk/chunk.h"
#include "columns/pickle/pickle_columns.h"
#include "feed/read/row_chunk.h"
#include "tfos/status.h"

namespace tfos::feed {

/// Makes columns of the chunks that a node is lent. Where it can, batches then refer to the
/// feeder's memory; it knows what is lent in this way, and gives that back when a feeder waits.
///
/// Owner and lifetime: owned by a reader, with the pool of its memory; chunks outlive it.
/// Threads: one at a time. Errors: those of RowChunk and of the converter.
class ChunkOpener {
 public:
  /// Makes a columnar chunk of a pickled one, or says why its rows do not make columns. Called for
  /// what PickleColumns leaves to Python.
  using Converter = std::function<Result<AlignedBuffer>(std::span<const std::byte> chunk)>;

  /// `pickles`: rows may be pickles. If not, a chunk of such is bad input.
  ChunkOpener(Converter converter, bool pickles)
      : converter_(std::move(converter)), pickles_allowed_(pickles) {}

  /// Chunks that are opened from now on keep what came, so that it can be passed on.
  void KeepSources(bool keep = true) { keep_sources_ = keep; }

  struct Opened {
    std::shared_ptr<const RowChunk> chunk;
    /// Set if the feeder is to be told what was read.
    std::shared_ptr<LentMemory> unread;
  };
  /// Takes the loan if it succeeds. One that is left can be opened again.
  Result<Opened> Open(ChunkLoan& loan);

  /// Batches may refer to memory that a feeder waits for.
  bool HasLent();
  /// Gives the feeders back what only batches refer to. Until those copies are gone, it copies
  /// rather than lends.
  void DetachLent();

  BufferPool& pool() { return pool_; }

 private:
  Result<columns::HeldBytes> Convert(const chunk::ChunkView& view,
                                     std::span<const std::byte> chunk);
  bool MayLend();

  const Converter converter_;
  const bool pickles_allowed_;
  BufferPool pool_;
  columns::PickleColumns pickles_{pool_};
  bool keep_sources_ = false;
  std::vector<std::weak_ptr<LentMemory>> lent_;      ///< Batches may refer to it.
  std::vector<std::weak_ptr<LentMemory>> detached_;  ///< The same, and the feeder has it back.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_CHUNK_OPENER_H_
