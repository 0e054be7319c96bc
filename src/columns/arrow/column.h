#ifndef TFOS_COLUMNS_ARROW_COLUMN_H_
#define TFOS_COLUMNS_ARROW_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "arrow/array_view.h"
#include "base/format.h"
#include "chunk/chunk.h"
#include "chunk/row_structure.h"
#include "tfos/status.h"

namespace tfos::columns {

/// What messages call a column.
struct ColumnId {
  std::string name;
  std::string format;  ///< Arrow's text for its type.

  Status Bad(std::string_view what) const {
    return Status(ErrorKind::kBadInput,
                  fmt::format("column {} of the Arrow type '{}': {}", name, format, what));
  }
  Status Null(std::uint64_t row) const {
    return Status(ErrorKind::kBadInput,
                  fmt::format("column {} has a null in row {}; fill or drop it first", name, row));
  }
  /// One in an array that a row holds, or in an array inside that.
  Status NullInside(std::uint64_t row) const {
    return Status(
        ErrorKind::kBadInput,
        fmt::format("column {0} has a null in row {1}, inside an array, where na.fill and na.drop "
                    "do not look. Leave it out with filter({0}, v -> v is not null), or replace it "
                    "with transform({0}, v -> coalesce(v, VALUE))",
                    name, row));
  }

  /// What a view of Arrow's arrays found, with the column's name.
  Status Named(const Status& found) const { return found.ok() ? found : Bad(found.message()); }
  template <typename T>
  Result<T> Named(Result<T> found) const {
    if (found.ok()) return found;
    return Bad(found.status().message());
  }
};

/// One column of a record batch, in whatever layout Arrow has it.
///
/// Owner and lifetime: borrows the arrays. Threads: one at a time.
/// Errors: kBadInput, naming the column and its type. Units: rows and elements.
class Column {
 public:
  explicit Column(ColumnId id) : id_(std::move(id)) {}
  virtual ~Column() = default;
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  const std::string& name() const { return id_.name; }

  /// Checks `rows`, counted from the first of the array, of which there is one at least. Sets in
  /// `spec` what depends on them, and returns the sort of node that the column makes in a row.
  virtual Result<chunk::RowNodeKind> Plan(arrow::Range rows, std::uint64_t first_row,
                                          chunk::ColumnSpec& spec) = 0;
  /// Writes the planned rows to column `index` of the chunk.
  virtual void Fill(chunk::ChunkBuilder& builder, std::size_t index) const = 0;
  /// Where the planned rows lie as Fill would write them, if they do; else null.
  virtual const std::byte* InPlace() const { return nullptr; }

 protected:
  const ColumnId id_;
};

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_ARROW_COLUMN_H_
