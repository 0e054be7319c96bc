#include "columns/arrow/string_column.h"

#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace tfos::columns {
namespace {

using arrow::Extent;
using arrow::Offsets;
using arrow::Range;

/// Text and binary values of any length or of one, and lists of them at any depth.
class StringColumn : public Column {
 public:
  /// `schema` and `array` are of what the lists hold. Null when it is of another type.
  static Result<std::unique_ptr<Column>> Open(const ColumnId& id, const Lists& lists,
                                              const ArrowSchema& schema, const ArrowArray& array,
                                              std::int64_t elements) {
    const std::string_view format = arrow::FormatOf(schema);
    const std::optional<std::int32_t> fixed_bytes = arrow::NumberAfter(format, "w:");
    const bool text = format == "u" || format == "U";
    if (!fixed_bytes && !text && format != "z" && format != "Z") return std::unique_ptr<Column>();
    auto column = std::make_unique<StringColumn>(id);
    TFOS_RETURN_IF_ERROR(
        id.Named(arrow::CheckArray(schema, array, fixed_bytes ? 2 : 3, 0, elements)));
    column->lists_ = lists;
    column->array_ = &array;
    column->text_ = text;
    column->fixed_ = fixed_bytes.has_value();
    if (column->fixed_) {
      column->bytes_ = static_cast<std::uint64_t>(*fixed_bytes);
    } else {
      column->offsets_ = Offsets(array, format == "U" || format == "Z");
    }
    return std::unique_ptr<Column>(std::move(column));
  }

  using Column::Column;

  Result<chunk::RowNodeKind> Plan(Range rows, std::uint64_t first_row,
                                  chunk::ColumnSpec& spec) override {
    TFOS_RETURN_IF_ERROR(lists_.Plan(id_, rows, first_row));
    const Range strings = lists_.held();
    if (fixed_) {
      data_ = {strings.begin * bytes_, strings.end * bytes_};
    } else {
      TFOS_ASSIGN_OR_RETURN(const Extent extent,
                            id_.Named(offsets_.Check(strings, arrow::kMostElements)));
      data_ = extent.range;
    }
    if (data_.size() != 0 && Data() == nullptr) return id_.Bad("the buffer of the data is missing");
    if (lists_.ragged()) {
      spec.encoding =
          text_ ? chunk::ColumnEncoding::kRaggedText : chunk::ColumnEncoding::kRaggedBytes;
      spec.strings = strings.size();
    } else {
      spec.encoding = text_ ? chunk::ColumnEncoding::kText : chunk::ColumnEncoding::kBytes;
      spec.shape = lists_.shape();
    }
    spec.data_bytes = data_.size();
    if (!lists_.none()) return chunk::RowNodeKind::kStringList;
    return text_ ? chunk::RowNodeKind::kText : chunk::RowNodeKind::kBytes;
  }

  void Fill(chunk::ChunkBuilder& builder, std::size_t index) const override {
    if (data_.size() != 0) {
      std::memcpy(builder.data(index).data(), Data() + data_.begin, data_.size());
    }
    lists_.WriteBoundaries(index, builder);
    const Range strings = lists_.held();
    if (strings.size() == 0) return;  // And perhaps no offset at all.
    if (!fixed_) {
      offsets_.ForEachBoundary(strings, [&](std::uint64_t i, std::uint64_t boundary) {
        builder.SetStringBoundary(index, i, boundary);
      });
      return;
    }
    for (std::uint64_t i = 1; i <= strings.size(); ++i) {
      builder.SetStringBoundary(index, i, i * bytes_);
    }
  }

 private:
  const std::byte* Data() const {
    return static_cast<const std::byte*>(array_->buffers[fixed_ ? 1 : 2]);
  }

  Lists lists_;
  const ArrowArray* array_ = nullptr;
  bool text_ = false;
  bool fixed_ = false;  ///< All values have `bytes_` bytes; otherwise `offsets_` say.
  std::uint64_t bytes_ = 0;
  Offsets offsets_;
  Range data_;  ///< Planned, in bytes.
};

}  // namespace

Result<std::unique_ptr<Column>> OpenStringColumn(const ColumnId& id, const Lists& lists,
                                                 const ArrowSchema& schema, const ArrowArray& array,
                                                 std::int64_t elements) {
  return StringColumn::Open(id, lists, schema, array, elements);
}

}  // namespace tfos::columns
