#ifndef TFOS_COLUMNS_PICKLE_CELL_COLUMNS_H_
#define TFOS_COLUMNS_PICKLE_CELL_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "chunk/chunk.h"
#include "chunk/row_structure.h"
#include "columns/pickle/pickle_value.h"

namespace tfos::columns {

/// What may still be written or compared for one chunk, which bounds the work for a small pickle
/// that refers to one large object many times. Units: bytes, roughly.
class Budget {
 public:
  explicit Budget(std::uint64_t bytes) : left_(bytes) {}

  /// False, and nothing, if that is more than is left.
  bool Spend(std::uint64_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  std::uint64_t left_;
};

/// One field of all rows.
struct Cells {
  std::span<const PickleValue* const> rows;  ///< Of each row: its fields.
  std::size_t index = 0;

  std::size_t size() const { return rows.size(); }
  const PickleValue& operator[](std::size_t row) const { return rows[row][index]; }
};

/// The columns of a chunk, each made of one field of its rows.
///
/// RowEncoder (python/codec/row_plan.cc) decides the same for Python's objects. There are two: this
/// one works without Python, and that one reads the objects where they are, without a copy.
/// tests/python/feed/test_pickle_columns.py compares what both make of random rows, byte for byte.
///
/// Owner and lifetime: borrows the budget and the values. Threads: one at a time.
/// Errors: `Plan` returns whether the field is what RowEncoder takes for a column and BatchReader
/// for a flat one; nothing can fail after that. Units: rows and elements.
class CellColumns {
 public:
  explicit CellColumns(Budget& budget) : budget_(budget) {}

  /// Plans the next column, of `cells`, of which there is one at least. Sets the kind of `node`.
  bool Plan(Cells cells, chunk::RowNode& node);

  const std::vector<chunk::ColumnSpec>& specs() const { return specs_; }

  /// Writes all columns.
  void Fill(chunk::ChunkBuilder& builder) const;

 private:
  bool PlanScalars(Cells cells, chunk::DType dtype);
  bool PlanStrings(Cells cells, chunk::ColumnEncoding encoding);
  bool PlanNumberSequences(Cells cells);
  bool PlanArrays(Cells cells, chunk::RowNode& node);
  /// Adds the column of sequences or arrays of numbers: a tensor if all have one length.
  void AddLists(Cells cells, chunk::DType dtype, bool ragged, std::uint64_t length,
                std::uint64_t elements);
  void FillColumn(std::size_t column, chunk::ChunkBuilder& builder) const;

  Budget& budget_;
  std::vector<Cells> cells_;              ///< Of each column.
  std::vector<chunk::ColumnSpec> specs_;  ///< Likewise.
};

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_PICKLE_CELL_COLUMNS_H_
