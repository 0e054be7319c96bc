#include "columns/arrow/number_column.h"

#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "base/format.h"

namespace tfos::columns {
namespace {

using arrow::Range;

constexpr std::size_t kDecimalBytes = 16;

/// The array of numbers of a column, or inside its lists.
struct Numbers {
  const ArrowArray* values = nullptr;
  NumberType type;

  static Result<Numbers> Open(const ColumnId& id, const ArrowSchema& schema,
                              const ArrowArray& array, std::int64_t elements, Decimals decimals) {
    const std::optional<NumberType> type = ParseNumberType(arrow::FormatOf(schema));
    if (!type) {
      return id.Bad(fmt::format("a chunk cannot hold '{}'; convert the column first",
                                arrow::FormatOf(schema)));
    }
    if (type->layout == NumberType::Layout::kDecimal128 && decimals == Decimals::kRefuse) {
      return id.Bad("a chunk has no type for decimals; cast it or pass decimals=\"float64\"");
    }
    TFOS_RETURN_IF_ERROR(id.Named(arrow::CheckArray(schema, array, 2, 0, elements)));
    return Numbers{&array, *type};
  }

  /// Where they lie as Write would write them, or null.
  const std::byte* InPlace(Range range) const {
    if (type.layout != NumberType::Layout::kSame || range.size() == 0) return nullptr;
    return static_cast<const std::byte*>(values->buffers[1]) +
           range.begin * chunk::DTypeBytes(type.dtype);
  }

  void Write(Range range, std::byte* to) const {
    const auto* from = static_cast<const std::byte*>(values->buffers[1]);
    switch (type.layout) {
      case NumberType::Layout::kSame: {
        const std::size_t bytes = chunk::DTypeBytes(type.dtype);
        if (range.size() != 0) std::memcpy(to, from + range.begin * bytes, range.size() * bytes);
        return;
      }
      case NumberType::Layout::kBits:
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
          *to++ = static_cast<std::byte>(arrow::Bit(from, i));
        }
        return;
      case NumberType::Layout::kDecimal128:
        DecimalsToDoubles(from + range.begin * kDecimalBytes, range.size(), type.scale, to);
        return;
    }
  }
};

/// Numbers, and lists of them at any depth.
class NumberColumn : public Column {
 public:
  NumberColumn(const ColumnId& id, Lists lists, Numbers numbers)
      : Column(id), lists_(std::move(lists)), numbers_(numbers) {}

  Result<chunk::RowNodeKind> Plan(Range rows, std::uint64_t first_row,
                                  chunk::ColumnSpec& spec) override {
    TFOS_RETURN_IF_ERROR(lists_.Plan(id_, rows, first_row));
    spec.dtype = numbers_.type.dtype;
    spec.shape = lists_.shape();
    if (lists_.none()) return chunk::RowNodeKind::kNumpyScalar;
    if (!lists_.ragged()) return chunk::RowNodeKind::kNumpyArray;
    spec.encoding = chunk::ColumnEncoding::kRagged;
    spec.data_bytes = lists_.held().size() * chunk::DTypeBytes(spec.dtype);
    return chunk::RowNodeKind::kNumpyRagged;
  }

  void Fill(chunk::ChunkBuilder& builder, std::size_t index) const override {
    numbers_.Write(lists_.held(), builder.data(index).data());
    lists_.WriteBoundaries(index, builder);
  }

  const std::byte* InPlace() const override {
    return lists_.ragged() ? nullptr : numbers_.InPlace(lists_.held());
  }

 private:
  Lists lists_;
  Numbers numbers_;
};

}  // namespace

Result<std::unique_ptr<Column>> OpenNumberColumn(const ColumnId& id, Lists lists,
                                                 const ArrowSchema& schema, const ArrowArray& array,
                                                 std::int64_t elements, Decimals decimals) {
  TFOS_ASSIGN_OR_RETURN(const Numbers numbers,
                        Numbers::Open(id, schema, array, elements, decimals));
  return std::unique_ptr<Column>(std::make_unique<NumberColumn>(id, std::move(lists), numbers));
}

}  // namespace tfos::columns
