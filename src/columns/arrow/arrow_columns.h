#ifndef TFOS_COLUMNS_ARROW_ARROW_COLUMNS_H_
#define TFOS_COLUMNS_ARROW_ARROW_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "arrow/c_data.h"
#include "chunk/chunk.h"
#include "columns/arrow/number_type.h"
#include "tfos/status.h"

namespace tfos::columns {

class Column;

/// Turns rows of an Arrow record batch into columnar chunks whose rows are Spark Rows. Numbers are
/// NumPy scalars, lists of numbers NumPy arrays, text is str, binary is bytes, lists of those are
/// lists. The types are listed in docs/dataframes.md.
///
///   columns->Plan(begin, end, first_row);
///   columns->Fill(memory for columns->bytes() bytes);   or   columns->InPlace()
///
/// Owner and lifetime: borrows the batch, which must outlive it and which nobody may change.
/// Threads: one at a time.
/// Errors: kBadInput, naming the column and its type. `Open` refuses types, and arrays that are
/// not built as their type wants; `Plan` refuses nulls, offsets that fall or leave the array they
/// point into, and nested lists of different lengths. The interface does not carry the sizes of
/// buffers, so those are taken on trust.
/// Units: rows are counted from the batch's first.
class ArrowColumns {
 public:
  static Result<std::unique_ptr<ArrowColumns>> Open(const ArrowSchema& schema,
                                                    const ArrowArray& batch, Decimals decimals);
  ~ArrowColumns();

  std::size_t rows() const { return rows_; }

  /// Plans a chunk of the rows [begin, end), which the batch has. `first_row` is the number that
  /// messages give to row `begin`.
  Status Plan(std::size_t begin, std::size_t end, std::uint64_t first_row);

  /// Bytes that the planned chunk needs.
  std::uint64_t bytes() const { return builder_->bytes(); }

  /// Writes the planned chunk to the front of `out`, which holds at least `bytes()`.
  Status Fill(std::span<std::byte> out);

  /// The columns of the planned chunk, which has rows, where they lie in the batch. None unless all
  /// of them lie there as in a chunk: numbers, and lists of one length of them, one value behind
  /// the other, at a multiple of kChunkAlignment.
  std::optional<std::vector<chunk::ColumnView>> InPlace() const;

 private:
  ArrowColumns();

  std::size_t rows_ = 0;
  std::uint64_t offset_ = 0;  ///< Of row 0 in the columns.
  std::vector<std::unique_ptr<Column>> columns_;
  std::vector<chunk::ColumnSpec> specs_;  ///< Planned.
  std::optional<chunk::ChunkBuilder> builder_;
  bool planned_rows_ = false;  ///< The planned chunk has rows, hence columns.
};

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_ARROW_ARROW_COLUMNS_H_
