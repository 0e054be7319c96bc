#ifndef TFOS_FEED_READ_ROW_CHUNK_H_
#define TFOS_FEED_READ_ROW_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/memory/buffer_pool.h"
#include "chunk/chunk.h"
#include "columns/batch_columns.h"
#include "feed/node/session/chunk_loan.h"
#include "feed/read/position/chunk_origin.h"
#include "tfos/status.h"

namespace tfos::feed {

/// A chunk as it came, and this process's own view of the feeder's memory if there is one.
struct LentMemory {
  ChunkLoan loan;
  PrivateView view;
};

/// Columns that rows are taken from.
///
/// Owner and lifetime: a value, with a share of its memory. Threads: any, as it does not change.
/// Errors: kBadInput for rows that do not make columns, or not of the wanted types. Units: rows.
struct RowChunk {
  struct Column {
    std::string name;
    chunk::ColumnView view;
  };

  std::vector<Column> columns;
  std::uint64_t rows = 0;
  std::shared_ptr<const void> memory;  ///< Of all columns.
  bool lendable = false;   ///< Batches may refer to the memory for as long as they like.
  bool of_feeder = false;  ///< It is a feeder's memory.
  /// What came, to be passed on to another node. Null once the feeder has its memory back.
  std::shared_ptr<LentMemory> source;
  /// What the rows are of the data. Null: not known.
  std::shared_ptr<const ChunkOrigin> origin;
  std::uint64_t origin_row = 0;  ///< That the first row is of the chunk that came.

  /// The column that is wanted, most likely number `hint`, if its type is the wanted one.
  Result<const chunk::ColumnView*> Find(const columns::BatchColumnType& wanted,
                                        std::size_t hint) const;

  /// Checks that it has all columns that are wanted.
  Status Check(const std::vector<columns::BatchColumnType>& wanted) const;

  /// Names the columns of a chunk whose rows are flat.
  static Result<std::vector<Column>> ColumnsOf(const chunk::ChunkView& chunk);

  /// The types of all columns.
  std::vector<columns::BatchColumnType> Types() const;

  /// These rows in memory of its own, without a source.
  Result<std::shared_ptr<RowChunk>> Copy(BufferPool& pool, std::uint64_t first,
                                         std::uint64_t count) const;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_ROW_CHUNK_H_
