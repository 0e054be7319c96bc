#include "feed/read/row_chunk.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "chunk/row_structure.h"

namespace tfos::feed {
namespace {

constexpr std::string_view kAdvice =
    "ctx.dataset takes rows whose fields are numbers, NumPy arrays, lists of numbers of one type, "
    "strings or bytes. Make such rows before feeding them, or read them with ctx.feed.next_batch";

std::string_view KindName(chunk::RowNodeKind kind) {
  switch (kind) {
    case chunk::RowNodeKind::kNone:
      return "None";
    case chunk::RowNodeKind::kList:
      return "a list of different things";
    case chunk::RowNodeKind::kTuple:
      return "a tuple of different things";
    case chunk::RowNodeKind::kDict:
      return "a dict";
    case chunk::RowNodeKind::kSparkRow:
      return "a Row";
    default:
      return "a value";
  }
}

/// Lists or tuples that are empty in all rows: without items, there is nothing to make columns of.
bool IsEmptyLists(const chunk::RowNode& node) {
  return node.children.empty() &&
         (node.kind == chunk::RowNodeKind::kList || node.kind == chunk::RowNodeKind::kTuple);
}

}  // namespace

Result<const chunk::ColumnView*> RowChunk::Find(const columns::BatchColumnType& wanted,
                                                std::size_t hint) const {
  auto it = columns.begin() + static_cast<std::ptrdiff_t>(std::min(hint, columns.size()));
  if (it == columns.end() || it->name != wanted.name) {
    it = std::find_if(columns.begin(), columns.end(),
                      [&](const Column& column) { return column.name == wanted.name; });
  }
  if (it == columns.end()) {
    std::vector<std::string_view> names;
    for (const Column& column : columns) names.push_back(column.name);
    return Status(ErrorKind::kBadInput, fmt::format("the rows have no column '{}'; they have {}",
                                                    wanted.name, fmt::join(names, ", ")));
  }
  TFOS_RETURN_IF_ERROR(columns::CheckBatchType(wanted, it->view));
  return &it->view;
}

Status RowChunk::Check(const std::vector<columns::BatchColumnType>& wanted) const {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    TFOS_RETURN_IF_ERROR(Find(wanted[i], i).status());
  }
  return {};
}

Result<std::vector<RowChunk::Column>> RowChunk::ColumnsOf(const chunk::ChunkView& chunk) {
  TFOS_ASSIGN_OR_RETURN(const chunk::RowNode root, chunk::ParseRowStructure(chunk));
  std::vector<Column> columns;
  const auto add = [&](const chunk::RowNode& node, std::string name) {
    columns.push_back({.name = std::move(name), .view = chunk.columns()[node.column]});
    columns.back().view.name = {};  // It would point into memory that `name` outlives.
  };
  const auto positional = [&](const chunk::RowNode& node, std::size_t position) {
    const std::string_view name = chunk.columns()[node.column].name;
    return name.empty() ? std::to_string(position) : std::string(name);
  };
  if (chunk::TakesColumn(root.kind)) {
    add(root, positional(root, 0));
    return columns;
  }
  const auto empty_lists = [&](std::string name) {
    columns.push_back({.name = std::move(name),
                       .view = columns::EmptyLists(static_cast<std::uint64_t>(chunk.rows()))});
  };
  if (IsEmptyLists(root)) {
    empty_lists("0");
    return columns;
  }
  if (root.children.empty()) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("the rows are {} and have no columns; {}",
                              root.kind == chunk::RowNodeKind::kNone ? "None" : "empty", kAdvice));
  }
  for (std::size_t i = 0; i < root.children.size(); ++i) {
    const chunk::RowNode& child = root.children[i];
    if (!chunk::TakesColumn(child.kind)) {
      std::string name = root.keys.empty() ? std::to_string(i) : root.keys[i];
      if (IsEmptyLists(child)) {
        empty_lists(std::move(name));
        continue;
      }
      return Status(ErrorKind::kBadInput, fmt::format("column '{}' of the rows is {}; {}", name,
                                                      KindName(child.kind), kAdvice));
    }
    add(child, root.keys.empty() ? positional(child, i) : root.keys[i]);
  }
  return columns;
}

std::vector<columns::BatchColumnType> RowChunk::Types() const {
  std::vector<columns::BatchColumnType> types;
  for (const Column& column : columns) {
    types.push_back(columns::BatchTypeOf(column.name, column.view));
  }
  return types;
}

Result<std::shared_ptr<RowChunk>> RowChunk::Copy(BufferPool& pool, std::uint64_t first,
                                                 std::uint64_t count) const {
  auto copy = std::make_shared<RowChunk>();
  auto copied = std::make_shared<std::vector<columns::HeldBytes>>();
  for (const Column& column : columns) {
    TFOS_ASSIGN_OR_RETURN(
        columns::OwnColumn own,
        columns::CopyColumn(pool, {.column = &column.view, .first = first, .count = count}));
    copy->columns.push_back({.name = column.name, .view = std::move(own.view)});
    std::ranges::move(own.memory, std::back_inserter(*copied));
  }
  copy->rows = count;
  copy->memory = std::move(copied);
  copy->lendable = true;
  copy->origin = origin;
  copy->origin_row = origin_row + first;
  return copy;
}

}  // namespace tfos::feed
