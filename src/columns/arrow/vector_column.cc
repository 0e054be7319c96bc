#include "columns/arrow/vector_column.h"

#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"

namespace tfos::columns {
namespace {

using arrow::Extent;
using arrow::Offsets;
using arrow::Range;

/// Vectors of Spark ML, which are structs of type (0 sparse, 1 dense), size (sparse only), indices
/// (sparse only) and values.
class VectorColumn : public Column {
 public:
  /// Null when the type is another.
  static Result<std::unique_ptr<Column>> Open(const ColumnId& id, const ArrowSchema& schema,
                                              const ArrowArray& array, std::int64_t elements) {
    if (!IsVector(schema)) return std::unique_ptr<Column>();
    auto column = std::make_unique<VectorColumn>(id);
    TFOS_RETURN_IF_ERROR(id.Named(arrow::CheckArray(schema, array, 1, 4, elements)));
    column->array_ = &array;
    const std::int64_t used = array.offset + array.length;
    for (std::size_t i : {kType, kSize}) {
      TFOS_RETURN_IF_ERROR(
          id.Named(arrow::CheckArray(*schema.children[i], *array.children[i], 2, 0, used)));
    }
    for (auto [list, place] :
         {std::pair(&column->indices_, kIndices), std::pair(&column->values_, kValues)}) {
      const ArrowSchema& type = *schema.children[place];
      list->array = array.children[place];
      TFOS_RETURN_IF_ERROR(id.Named(arrow::CheckArray(type, *list->array, 2, 1, used)));
      list->elements = list->array->children[0];
      TFOS_RETURN_IF_ERROR(id.Named(arrow::CheckArray(*type.children[0], *list->elements, 2, 0)));
      list->offsets = Offsets(*list->array, false);
    }
    return std::unique_ptr<Column>(std::move(column));
  }

  using Column::Column;

  Result<chunk::RowNodeKind> Plan(Range rows, std::uint64_t first_row,
                                  chunk::ColumnSpec& spec) override {
    rows_ = rows.Shifted(array_->offset);
    if (const auto null = arrow::FindNull(*array_, rows_)) {
      return id_.Null(first_row + (*null - rows_.begin));
    }
    for (const List* list : {&indices_, &values_}) {
      TFOS_ASSIGN_OR_RETURN(const Extent extent,
                            id_.Named(list->offsets.Check(rows_.Shifted(list->array->offset),
                                                          list->elements->length)));
      if (arrow::FindNull(*list->elements, extent.range.Shifted(list->elements->offset))) {
        return id_.Bad("a vector holds a null");
      }
    }
    boundaries_.assign(1, 0);
    bool same_size = true;
    for (std::uint64_t row = rows_.begin; row < rows_.end; ++row) {
      const std::optional<std::uint64_t> size = SizeOf(row);
      if (!size) {
        return id_.Bad(fmt::format("the vector in row {} is not one of Spark ML",
                                   first_row + (row - rows_.begin)));
      }
      boundaries_.push_back(boundaries_.back() + *size);
      if (boundaries_.back() > static_cast<std::uint64_t>(arrow::kMostElements)) {
        return id_.Bad("the vectors are too large for a chunk");
      }
      same_size = same_size && *size == boundaries_[1];
    }
    spec.dtype = chunk::DType::kFloat64;
    ragged_ = !same_size;
    if (!ragged_) {
      spec.shape = {boundaries_[1]};
      return chunk::RowNodeKind::kNumpyArray;
    }
    spec.encoding = chunk::ColumnEncoding::kRagged;
    spec.data_bytes = boundaries_.back() * sizeof(double);
    return chunk::RowNodeKind::kNumpyRagged;
  }

  void Fill(chunk::ChunkBuilder& builder, std::size_t index) const override {
    const std::span<std::byte> data = builder.data(index);
    for (std::uint64_t i = 0; i < rows_.size(); ++i) {
      const std::uint64_t row = rows_.begin + i;
      std::byte* const to = data.data() + boundaries_[i] * sizeof(double);
      const Range values = values_.Of(row);
      if (TypeOf(row) == kDense) {
        if (values.size() != 0) {
          std::memcpy(to, values_.At<double>(values.begin), values.size() * sizeof(double));
        }
      } else {
        std::memset(to, 0, (boundaries_[i + 1] - boundaries_[i]) * sizeof(double));
        const Range indices = indices_.Of(row);
        for (std::uint64_t k = 0; k < indices.size(); ++k) {
          const auto place = Load<std::int32_t>(indices_.At<std::int32_t>(indices.begin + k));
          std::memcpy(to + static_cast<std::uint64_t>(place) * sizeof(double),
                      values_.At<double>(values.begin + k), sizeof(double));
        }
      }
      if (ragged_) builder.SetBoundary(index, i + 1, boundaries_[i + 1]);
    }
  }

 private:
  enum Child : std::size_t { kType = 0, kSize = 1, kIndices = 2, kValues = 3 };
  static constexpr std::int8_t kSparse = 0;
  static constexpr std::int8_t kDense = 1;

  struct List {
    const ArrowArray* array = nullptr;
    const ArrowArray* elements = nullptr;
    Offsets offsets;

    /// The positions of the elements of the struct's row `row`.
    Range Of(std::uint64_t row) const {
      const std::uint64_t at = row + static_cast<std::uint64_t>(array->offset);
      return Range{offsets[at], offsets[at + 1]}.Shifted(elements->offset);
    }
    template <typename T>
    const std::byte* At(std::uint64_t position) const {
      return static_cast<const std::byte*>(elements->buffers[1]) + position * sizeof(T);
    }
  };

  /// Names and types of the children, in the order of Child.
  static constexpr std::pair<std::string_view, std::string_view> kChildren[] = {
      {"type", "c"}, {"size", "i"}, {"indices", "+l"}, {"values", "+l"}};

  static bool IsVector(const ArrowSchema& schema) {
    if (arrow::FormatOf(schema) != "+s" || schema.n_children != std::ssize(kChildren) ||
        schema.children == nullptr) {
      return false;
    }
    for (std::size_t i = 0; i < std::size(kChildren); ++i) {
      const ArrowSchema* child = schema.children[i];
      if (child == nullptr || child->name == nullptr || child->name != kChildren[i].first ||
          arrow::FormatOf(*child) != kChildren[i].second) {
        return false;
      }
    }
    return arrow::IsOneOf(*schema.children[kIndices], "i") &&
           arrow::IsOneOf(*schema.children[kValues], "g");
  }

  bool IsNull(const ArrowArray& child, std::uint64_t row) const {
    const Range one{row, row + 1};
    return arrow::FindNull(child, one.Shifted(child.offset)).has_value();
  }

  template <typename T>
  T ScalarOf(Child place, std::uint64_t row) const {
    const ArrowArray& child = *array_->children[place];
    return Load<T>(static_cast<const std::byte*>(child.buffers[1]) +
                   (row + static_cast<std::uint64_t>(child.offset)) * sizeof(T));
  }
  std::int8_t TypeOf(std::uint64_t row) const { return ScalarOf<std::int8_t>(kType, row); }

  /// The size of the vector in `row` of the struct; none when it is not a valid vector.
  std::optional<std::uint64_t> SizeOf(std::uint64_t row) const {
    if (IsNull(*array_->children[kType], row) || IsNull(*values_.array, row)) return std::nullopt;
    const Range values = values_.Of(row);
    if (TypeOf(row) == kDense) return values.size();
    if (TypeOf(row) != kSparse || IsNull(*array_->children[kSize], row) ||
        IsNull(*indices_.array, row)) {
      return std::nullopt;
    }
    const auto size = ScalarOf<std::int32_t>(kSize, row);
    const Range indices = indices_.Of(row);
    if (size < 0 || indices.size() != values.size()) return std::nullopt;
    for (std::uint64_t i = indices.begin; i < indices.end; ++i) {
      const auto place = Load<std::int32_t>(indices_.At<std::int32_t>(i));
      if (place < 0 || place >= size) return std::nullopt;
    }
    return static_cast<std::uint64_t>(size);
  }

  const ArrowArray* array_ = nullptr;
  List indices_;
  List values_;
  Range rows_;                             ///< Planned.
  std::vector<std::uint64_t> boundaries_;  ///< Planned: of the vectors, in elements.
  bool ragged_ = false;
};

}  // namespace

Result<std::unique_ptr<Column>> OpenVectorColumn(const ColumnId& id, const ArrowSchema& schema,
                                                 const ArrowArray& array, std::int64_t elements) {
  return VectorColumn::Open(id, schema, array, elements);
}

}  // namespace tfos::columns
