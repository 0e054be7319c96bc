#include "columns/arrow/lists.h"

#include <optional>
#include <string_view>

#include "base/format.h"

namespace tfos::columns {

using arrow::Extent;
using arrow::Range;

Status Lists::Open(const ColumnId& id, const ArrowSchema*& schema, const ArrowArray*& array,
                   std::int64_t& elements) {
  while (true) {
    Level level{.array = array};
    const std::string_view format = arrow::FormatOf(*schema);
    const std::optional<std::int32_t> fixed_length = arrow::NumberAfter(format, "+w:");
    if (!fixed_length && format != "+l" && format != "+L") break;
    if (levels_.size() == chunk::kMaxTensorRank) {
      return id.Bad("lists are nested too deeply for a chunk");
    }
    TFOS_RETURN_IF_ERROR(
        id.Named(arrow::CheckArray(*schema, *array, fixed_length ? 1 : 2, 1, elements)));
    level.fixed = fixed_length.has_value();
    if (level.fixed) {
      level.length = static_cast<std::uint64_t>(*fixed_length);
    } else {
      level.offsets = arrow::Offsets(*array, format == "+L");
    }
    levels_.push_back(level);
    elements = 0;  // What the lists need of their child depends on the rows.
    schema = schema->children[0];
    array = array->children[0];
  }
  held_ = array;
  return Status::Ok();
}

Status Lists::Plan(const ColumnId& id, Range rows, std::uint64_t first_row) {
  bool same_length = true;
  shape_.clear();
  ranges_.assign(1, rows.Shifted(ArrayAt(0).offset));
  for (std::size_t depth = 0; depth < levels_.size(); ++depth) {
    TFOS_RETURN_IF_ERROR(CheckNullsAt(id, depth, first_row));
    TFOS_ASSIGN_OR_RETURN(const Extent extent, ExtentAt(id, depth));
    same_length = same_length && extent.same_length;
    shape_.push_back(extent.length);
    ranges_.push_back(extent.range.Shifted(ArrayAt(depth + 1).offset));
  }
  TFOS_RETURN_IF_ERROR(CheckNullsAt(id, levels_.size(), first_row));
  ragged_ = !same_length;
  if (!ragged_) return Status::Ok();
  if (levels_.size() > 1) {
    return id.Bad("lists inside lists have different lengths; pad them to one length");
  }
  shape_.clear();
  return Status::Ok();
}

void Lists::WriteBoundaries(std::size_t column, chunk::ChunkBuilder& builder) const {
  if (!ragged_) return;
  levels_[0].offsets.ForEachBoundary(ranges_[0], [&](std::uint64_t i, std::uint64_t boundary) {
    builder.SetBoundary(column, i, boundary);
  });
}

Result<Extent> Lists::ExtentAt(const ColumnId& id, std::size_t depth) const {
  const Level& level = levels_[depth];
  const Range lists = ranges_[depth];
  const std::int64_t elements = ArrayAt(depth + 1).length;
  if (!level.fixed) return id.Named(level.offsets.Check(lists, elements));
  if (level.length != 0 && lists.end > static_cast<std::uint64_t>(elements) / level.length) {
    return id.Bad(fmt::format("{} elements are too few for lists of {}", elements, level.length));
  }
  return Extent{.range = {lists.begin * level.length, lists.end * level.length},
                .length = level.length};
}

Status Lists::CheckNullsAt(const ColumnId& id, std::size_t depth, std::uint64_t first_row) const {
  const auto null = arrow::FindNull(ArrayAt(depth), ranges_[depth]);
  if (!null) return Status::Ok();
  const std::uint64_t row = first_row + RowOf(depth, *null);
  return depth == 0 ? id.Null(row) : id.NullInside(row);
}

std::uint64_t Lists::RowOf(std::size_t depth, std::uint64_t position) const {
  for (; depth > 0; --depth) {
    const Level& above = levels_[depth - 1];
    const Range lists = ranges_[depth - 1];
    position -= static_cast<std::uint64_t>(ArrayAt(depth).offset);
    if (above.fixed) {
      position /= above.length;
      continue;
    }
    std::uint64_t list = lists.begin;
    while (above.offsets[list + 1] <= position) ++list;
    position = list;
  }
  return position - ranges_[0].begin;
}

}  // namespace tfos::columns
