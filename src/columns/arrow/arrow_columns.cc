#include "columns/arrow/arrow_columns.h"

#include <string>
#include <utility>

#include "arrow/array_view.h"
#include "base/format.h"
#include "chunk/row_structure.h"
#include "columns/arrow/column.h"
#include "columns/arrow/lists.h"
#include "columns/arrow/number_column.h"
#include "columns/arrow/string_column.h"
#include "columns/arrow/vector_column.h"

namespace tfos::columns {
namespace {

using arrow::Range;

/// `elements` is how many the rows need of the array.
Result<std::unique_ptr<Column>> OpenColumn(const ColumnId& id, const ArrowSchema& schema,
                                           const ArrowArray& array, std::int64_t elements,
                                           Decimals decimals) {
  TFOS_ASSIGN_OR_RETURN(std::unique_ptr<Column> column,
                        OpenVectorColumn(id, schema, array, elements));
  if (column) return column;
  Lists lists;
  const ArrowSchema* held_schema = &schema;
  const ArrowArray* held = &array;
  TFOS_RETURN_IF_ERROR(lists.Open(id, held_schema, held, elements));
  TFOS_ASSIGN_OR_RETURN(column, OpenStringColumn(id, lists, *held_schema, *held, elements));
  if (column) return column;
  return OpenNumberColumn(id, std::move(lists), *held_schema, *held, elements, decimals);
}

}  // namespace

ArrowColumns::ArrowColumns() = default;
ArrowColumns::~ArrowColumns() = default;

Result<std::unique_ptr<ArrowColumns>> ArrowColumns::Open(const ArrowSchema& schema,
                                                         const ArrowArray& batch,
                                                         Decimals decimals) {
  const ColumnId whole{.name = "(the record batch)",
                       .format = std::string(arrow::FormatOf(schema))};
  if (schema.release == nullptr || batch.release == nullptr) {
    return whole.Bad("it was released before it was read");
  }
  if (whole.format != "+s") return whole.Bad("it is not a struct of columns");
  TFOS_RETURN_IF_ERROR(whole.Named(arrow::CheckArray(schema, batch, 1, schema.n_children)));
  const Range all{0, static_cast<std::uint64_t>(batch.length)};
  if (arrow::FindNull(batch, all.Shifted(batch.offset)))
    return whole.Bad("a whole row of it is null");

  std::unique_ptr<ArrowColumns> columns(new ArrowColumns);
  columns->rows_ = static_cast<std::size_t>(batch.length);
  columns->offset_ = static_cast<std::uint64_t>(batch.offset);
  const std::int64_t elements = batch.offset + batch.length;
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    const ArrowSchema& type = *schema.children[i];
    const ArrowArray& array = *batch.children[i];
    const ColumnId id{.name = type.name == nullptr ? "" : type.name,
                      .format = std::string(arrow::FormatOf(type))};
    TFOS_ASSIGN_OR_RETURN(std::unique_ptr<Column> column,
                          OpenColumn(id, type, array, elements, decimals));
    columns->columns_.push_back(std::move(column));
  }
  return columns;
}

Status ArrowColumns::Plan(std::size_t begin, std::size_t end, std::uint64_t first_row) {
  if (begin > end || end > rows_) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("rows [{}, {}) of a record batch of {}", begin, end, rows_));
  }
  // A chunk without rows has no columns.
  planned_rows_ = begin != end;
  chunk::RowNode root;
  specs_.clear();
  if (planned_rows_) {
    root.kind = chunk::RowNodeKind::kSparkRow;
    const Range rows{begin + offset_, end + offset_};
    for (const auto& column : columns_) {
      chunk::ColumnSpec spec;
      spec.values = rows.size();
      spec.name = column->name();
      chunk::RowNode node;
      TFOS_ASSIGN_OR_RETURN(node.kind, column->Plan(rows, first_row, spec));
      root.keys.push_back(column->name());
      root.children.push_back(std::move(node));
      specs_.push_back(std::move(spec));
    }
  }
  std::string structure;
  chunk::AppendRowStructure(root, structure);
  builder_.emplace(chunk::ChunkKind::kColumnar, static_cast<std::int64_t>(end - begin),
                   std::move(structure));
  for (const chunk::ColumnSpec& spec : specs_) builder_->AddColumn(spec);
  return builder_->Plan().status();
}

Status ArrowColumns::Fill(std::span<std::byte> out) {
  TFOS_RETURN_IF_ERROR(builder_->Begin(out));
  if (!planned_rows_) return Status::Ok();
  for (std::size_t i = 0; i < columns_.size(); ++i) columns_[i]->Fill(*builder_, i);
  return Status::Ok();
}

std::optional<std::vector<chunk::ColumnView>> ArrowColumns::InPlace() const {
  std::vector<chunk::ColumnView> views;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const chunk::ColumnSpec& spec = specs_[i];
    const std::byte* const data = columns_[i]->InPlace();
    if (data == nullptr || reinterpret_cast<std::uintptr_t>(data) % chunk::kChunkAlignment != 0) {
      return std::nullopt;
    }
    std::uint64_t value_elements = 1;
    for (const std::uint64_t size : spec.shape) value_elements *= size;  // Of memory that there is.
    const std::uint64_t value_bytes = value_elements * chunk::DTypeBytes(spec.dtype);
    views.push_back({.encoding = spec.encoding,
                     .dtype = spec.dtype,
                     .shape = spec.shape,
                     .name = columns_[i]->name(),
                     .values = spec.values,
                     .value_elements = value_elements,
                     .value_bytes = value_bytes,
                     .elements = spec.values * value_elements,
                     .data = {data, spec.values * value_bytes}});
  }
  return views;
}

}  // namespace tfos::columns
