#include "columns/arrow/arrow_export.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrow/export.h"
#include "base/format.h"
#include "chunk/row_structure.h"
#include "columns/arrow/number_type.h"

namespace tfos::columns {
namespace {

constexpr std::uint64_t kMostElements = std::numeric_limits<std::int32_t>::max();

using arrow::Field;

class Exporter {
 public:
  Exporter(std::shared_ptr<const AlignedBuffer> chunk, const chunk::ChunkView& view)
      : chunk_(std::move(chunk)), view_(view), rows_(static_cast<std::uint64_t>(view.rows())) {}

  Result<Field> Row(const chunk::RowNode& root) const {
    Field row = Struct({});
    if (chunk::TakesColumn(root.kind) || root.kind == chunk::RowNodeKind::kNone) {
      TFOS_ASSIGN_OR_RETURN(Field only, Value(root, "0"));
      row.children.push_back(std::move(only));
      return row;
    }
    return Value(root, {});
  }

 private:
  Field Struct(std::string name) const {
    return {.name = std::move(name),
            .format = "+s",
            .length = rows_,
            .buffers = {nullptr},
            .memory = {},
            .children = {}};
  }

  Result<Field> Value(const chunk::RowNode& node, std::string name) const {
    if (chunk::TakesColumn(node.kind)) return Column(view_.columns()[node.column], std::move(name));
    if (node.kind == chunk::RowNodeKind::kNone) {
      return Field{.name = std::move(name),
                   .format = "n",
                   .length = rows_,
                   .nulls = rows_,
                   .buffers = {},
                   .memory = {},
                   .children = {}};
    }
    Field fields = Struct(std::move(name));
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      TFOS_ASSIGN_OR_RETURN(
          Field child,
          Value(node.children[i], node.keys.empty() ? std::to_string(i) : node.keys[i]));
      fields.children.push_back(std::move(child));
    }
    return fields;
  }

  Result<Field> Column(const chunk::ColumnView& column, std::string name) const {
    if (!chunk::IsRagged(column.encoding)) return Lists(column, std::move(name));
    TFOS_ASSIGN_OR_RETURN(Field elements, Elements(column, column.elements, "element"));
    TFOS_ASSIGN_OR_RETURN(
        Field list,
        Offsets(column.values, column.elements, std::move(name), "+l",
                [&](std::uint64_t i) { return std::min(column.Boundary(i), column.elements); }));
    list.children.push_back(std::move(elements));
    return list;
  }

  /// Lists inside each other, as many as a value has dimensions.
  Result<Field> Lists(const chunk::ColumnView& column, std::string name) const {
    std::uint64_t lists = column.values;
    std::vector<Field> levels;  // From the outermost list to the elements.
    for (const std::uint64_t length : column.shape) {
      // More than Arrow's offsets take is refused below; the product must not wrap before that.
      const std::uint64_t elements =
          length != 0 && lists > kMostElements / length ? kMostElements + 1 : lists * length;
      TFOS_ASSIGN_OR_RETURN(Field list, Offsets(lists, elements, std::exchange(name, "element"),
                                                "+l", [&](std::uint64_t i) { return i * length; }));
      levels.push_back(std::move(list));
      lists = elements;
    }
    TFOS_ASSIGN_OR_RETURN(Field field, Elements(column, lists, std::move(name)));
    for (; !levels.empty(); levels.pop_back()) {
      levels.back().children.push_back(std::move(field));
      field = std::move(levels.back());
    }
    return field;
  }

  Result<Field> Elements(const chunk::ColumnView& column, std::uint64_t count,
                         std::string name) const {
    return chunk::HoldsStrings(column.encoding) ? Strings(column, count, std::move(name))
                                                : Numbers(column, count, std::move(name));
  }

  Result<Field> Strings(const chunk::ColumnView& column, std::uint64_t count,
                        std::string name) const {
    const std::uint64_t bytes = column.data.size();
    TFOS_ASSIGN_OR_RETURN(
        Field strings,
        Offsets(count, bytes, std::move(name), chunk::HoldsText(column.encoding) ? "u" : "z",
                [&](std::uint64_t i) { return std::min(column.StringBoundary(i), bytes); }));
    strings.buffers.push_back(column.data.data());
    strings.memory.push_back(chunk_);
    return strings;
  }

  /// A field whose value i is what lies between `offset(i)` and `offset(i + 1)`, of `units`.
  template <typename Offset>
  static Result<Field> Offsets(std::uint64_t values, std::uint64_t units, std::string name,
                               const char* format, Offset offset) {
    if (units > kMostElements || values >= kMostElements) {
      return Status(ErrorKind::kUnsupported,
                    fmt::format("column {} has {} elements in one chunk; Arrow's lists and strings "
                                "take {}",
                                name, std::max(units, values), kMostElements));
    }
    auto offsets = std::make_shared<std::vector<std::int32_t>>(values + 1);
    for (std::uint64_t i = 0; i <= values; ++i) {
      (*offsets)[i] = static_cast<std::int32_t>(offset(i));
    }
    const void* const data = offsets->data();
    return Field{.name = std::move(name),
                 .format = format,
                 .length = values,
                 .buffers = {nullptr, data},
                 .memory = {std::move(offsets)},
                 .children = {}};
  }

  Result<Field> Numbers(const chunk::ColumnView& column, std::uint64_t count,
                        std::string name) const {
    const char* const format = ArrowFormat(column.dtype);
    if (format == nullptr) {
      return Status(ErrorKind::kUnsupported,
                    fmt::format("column {} is {}, which Arrow does not have", name,
                                chunk::DTypeName(column.dtype)));
    }
    Field numbers{.name = std::move(name),
                  .format = format,
                  .length = count,
                  .buffers = {nullptr, column.data.data()},
                  .memory = {chunk_},
                  .children = {}};
    if (column.dtype == chunk::DType::kBool) {
      auto bits = std::make_shared<std::vector<std::uint8_t>>((count + 7) / 8);
      for (std::uint64_t i = 0; i < count; ++i) {
        const bool set = column.data[i] != std::byte{0};
        (*bits)[i / 8] |= static_cast<std::uint8_t>(static_cast<unsigned>(set) << (i % 8));
      }
      numbers.buffers[1] = bits->data();
      numbers.memory = {std::move(bits)};
    }
    return numbers;
  }

  std::shared_ptr<const AlignedBuffer> chunk_;
  const chunk::ChunkView& view_;
  const std::uint64_t rows_;
};

}  // namespace

Status ExportToArrow(std::shared_ptr<const AlignedBuffer> chunk, ArrowSchema& schema,
                     ArrowArray& array) {
  TFOS_ASSIGN_OR_RETURN(const chunk::ChunkView view, chunk::ChunkView::Parse(chunk->bytes()));
  if (view.kind() != chunk::ChunkKind::kColumnar) {
    return Status(ErrorKind::kBadInput, "the rows of this chunk are pickled: it has no columns");
  }
  TFOS_ASSIGN_OR_RETURN(const chunk::RowNode root, chunk::ParseRowStructure(view));
  TFOS_ASSIGN_OR_RETURN(Field row, Exporter(std::move(chunk), view).Row(root));
  schema = arrow::ExportSchema(row);
  array = arrow::ExportArray(std::move(row));
  return Status::Ok();
}

}  // namespace tfos::columns
