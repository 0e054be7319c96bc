#ifndef TFOS_COLUMNS_PICKLE_PICKLE_COLUMNS_H_
#define TFOS_COLUMNS_PICKLE_PICKLE_COLUMNS_H_

#include <cstdint>
#include <optional>

#include "base/memory/buffer_pool.h"
#include "chunk/chunk.h"
#include "columns/pickle/pickle_reader.h"
#include "tfos/status.h"

namespace tfos::columns {

/// Turns chunks of pickled batches into columnar ones, without Python. What comes out is byte for
/// byte what src/python's RowEncoder makes of the unpickled rows.
///
/// Owner and lifetime: borrows the pool that the columns' memory comes from, and keeps its working
/// memory from chunk to chunk. Threads: one at a time.
/// Errors: kNoResources without memory for the columns. Rows that it cannot read, or that make no
/// flat columns, are not an error here: they are left to Python, which knows what to say. Where
/// that has happened several times in a row, it mostly doesn't try any more. Throws std::bad_alloc.
///
/// Columns may be much larger than the pickle, as a pickle refers to an object that occurs again.
/// Beyond kMostGrowth that is left to Python, too, before any work is done in proportion to it.
class PickleColumns {
 public:
  /// Bytes of columns for each byte of pickle, and on top of that.
  static constexpr std::uint64_t kMostGrowth = 64;
  static constexpr std::uint64_t kFreeGrowthBytes = std::uint64_t{16} << 20;

  explicit PickleColumns(BufferPool& pool) : pool_(pool) {}

  /// `chunk` is of the kind kPickledBatches. None: left to Python.
  Result<std::optional<PooledBuffer>> Convert(const chunk::ChunkView& chunk);

 private:
  Result<std::optional<PooledBuffer>> Try(const chunk::ChunkView& chunk);

  BufferPool& pool_;
  PickleReader reader_;
  std::uint32_t refused_in_a_row_ = 0;
};

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_PICKLE_PICKLE_COLUMNS_H_
