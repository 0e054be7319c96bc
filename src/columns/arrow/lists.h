#ifndef TFOS_COLUMNS_ARROW_LISTS_H_
#define TFOS_COLUMNS_ARROW_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arrow/array_view.h"
#include "chunk/chunk.h"
#include "columns/arrow/column.h"
#include "tfos/status.h"

namespace tfos::columns {

/// The lists of a column, one inside the other, down to what they hold; none in a column of plain
/// values.
///
/// Owner and lifetime: borrows the arrays. Threads: one at a time.
/// Errors: kBadInput, naming the column. Units: positions in arrays, their offsets included.
class Lists {
 public:
  /// Goes down from a column to what isn't a list, which `schema` and `array` then are. Of that the
  /// column's rows need at least `elements`.
  Status Open(const ColumnId& id, const ArrowSchema*& schema, const ArrowArray*& array,
              std::int64_t& elements);

  bool none() const { return levels_.empty(); }

  /// Checks the lists of `rows` and looks for nulls, also in what they hold.
  Status Plan(const ColumnId& id, arrow::Range rows, std::uint64_t first_row);

  // What follows is about the planned rows.

  /// What they hold, as positions in its array.
  arrow::Range held() const { return ranges_.back(); }
  bool ragged() const { return ragged_; }
  /// The shape of the lists of each row; empty if they are ragged.
  const std::vector<std::uint64_t>& shape() const { return shape_; }

  void WriteBoundaries(std::size_t column, chunk::ChunkBuilder& builder) const;

 private:
  struct Level {
    const ArrowArray* array = nullptr;
    bool fixed = false;  ///< All lists have `length` elements; otherwise `offsets` say.
    std::uint64_t length = 0;
    arrow::Offsets offsets = {};
  };

  const ArrowArray& ArrayAt(std::size_t depth) const {
    return depth < levels_.size() ? *levels_[depth].array : *held_;
  }
  /// Where the elements of the planned lists at `depth` lie in the array below.
  Result<arrow::Extent> ExtentAt(const ColumnId& id, std::size_t depth) const;
  Status CheckNullsAt(const ColumnId& id, std::size_t depth, std::uint64_t first_row) const;
  /// The planned row, counted from 0, that holds the element at `position` of the array at `depth`.
  std::uint64_t RowOf(std::size_t depth, std::uint64_t position) const;

  std::vector<Level> levels_;  ///< The outermost first.
  const ArrowArray* held_ = nullptr;
  std::vector<arrow::Range> ranges_;  ///< Planned, of every level and of what they hold.
  std::vector<std::uint64_t> shape_;
  bool ragged_ = false;
};

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_ARROW_LISTS_H_
