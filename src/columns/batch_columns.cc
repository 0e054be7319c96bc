#include "columns/batch_columns.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/format.h"
#include "base/text/choice.h"

namespace tfos::columns {
namespace {

constexpr Choice<BatchEncoding> kEncodings[] = {{"dense", BatchEncoding::kDense},
                                                {"ragged", BatchEncoding::kRagged},
                                                {"strings", BatchEncoding::kStrings},
                                                {"ragged strings", BatchEncoding::kRaggedStrings}};

bool HoldsStrings(BatchEncoding encoding) {
  return encoding == BatchEncoding::kStrings || encoding == BatchEncoding::kRaggedStrings;
}

BatchEncoding EncodingOf(const chunk::ColumnView& column) {
  switch (column.encoding) {
    case chunk::ColumnEncoding::kTensor:
      return BatchEncoding::kDense;
    case chunk::ColumnEncoding::kRagged:
      return BatchEncoding::kRagged;
    case chunk::ColumnEncoding::kRaggedBytes:
    case chunk::ColumnEncoding::kRaggedText:
      return BatchEncoding::kRaggedStrings;
    case chunk::ColumnEncoding::kBytes:
    case chunk::ColumnEncoding::kText:
    case chunk::ColumnEncoding::kOpaque:
      break;
  }
  return BatchEncoding::kStrings;
}

bool IsRagged(BatchEncoding encoding) {
  return encoding == BatchEncoding::kRagged || encoding == BatchEncoding::kRaggedStrings;
}

/// The ragged encoding of the same elements.
BatchEncoding AsRagged(BatchEncoding encoding) {
  switch (encoding) {
    case BatchEncoding::kDense:
    case BatchEncoding::kRagged:
      return BatchEncoding::kRagged;
    case BatchEncoding::kStrings:
    case BatchEncoding::kRaggedStrings:
      break;
  }
  return BatchEncoding::kRaggedStrings;
}

std::string Describe(const BatchColumnType& type) {
  if (!type.known()) return "empty lists";
  switch (type.encoding) {
    case BatchEncoding::kDense:
      return fmt::format("{}[{}]", chunk::DTypeName(type.dtype), fmt::join(type.shape, ", "));
    case BatchEncoding::kRagged:
      return fmt::format("ragged {}", chunk::DTypeName(type.dtype));
    case BatchEncoding::kRaggedStrings:
      return "ragged strings";
    case BatchEncoding::kStrings:
      break;
  }
  return type.shape.empty() ? "strings" : fmt::format("strings[{}]", fmt::join(type.shape, ", "));
}

/// Heap memory that is handed out.
struct Buffer {
  std::byte* data = nullptr;
  HeldBytes held;
};

Result<Buffer> Allocate(BufferPool& pool, std::uint64_t bytes) {
  if (bytes == 0) return Buffer{};
  PooledBuffer room = pool.Allocate(bytes);
  if (room.bytes.size() != bytes) {
    return Status(ErrorKind::kNoResources, fmt::format("no memory for {} bytes of a batch", bytes));
  }
  return Buffer{.data = room.bytes.data(),
                .held = {.bytes = room.bytes, .memory = std::move(room.memory)}};
}

/// Room for the boundaries of so many parts, of which the first is written.
Result<Buffer> AllocateBoundaries(BufferPool& pool, std::uint64_t parts) {
  TFOS_ASSIGN_OR_RETURN(Buffer boundaries, Allocate(pool, (parts + 1) * sizeof(std::uint64_t)));
  Store(std::uint64_t{0}, boundaries.data);
  return boundaries;
}

// Boundaries are read once each and kept inside of what they cut: the feeder can still write to
// them.

/// The elements of the part, all of whose values have one shape.
chunk::ElementRange ShapedElements(const ColumnPart& part) {
  const std::uint64_t each = part.column->value_elements;
  return {part.first * each, (part.first + part.count) * each};
}

/// Writes where the part's values end when the first begins at `base`, and returns where they are
/// in the column.
chunk::ElementRange WriteBoundaries(const ColumnPart& part, std::uint64_t base, std::byte* to) {
  const chunk::ColumnView& column = *part.column;
  const auto write = [&](std::uint64_t index, std::uint64_t value) {
    Store(value, to + index * sizeof value);
  };
  if (!chunk::IsRagged(column.encoding)) {
    for (std::uint64_t i = 0; i < part.count; ++i) write(i, base + (i + 1) * column.value_elements);
    return ShapedElements(part);
  }
  const std::uint64_t begin = std::min(column.Boundary(part.first), column.elements);
  std::uint64_t end = begin;
  for (std::uint64_t i = 0; i < part.count; ++i) {
    end = std::clamp(column.Boundary(part.first + i + 1), end, column.elements);
    write(i, base + (end - begin));
  }
  return {begin, end};
}

/// Where the elements of each part are in its column; with the boundaries that ragged values have
/// when they follow each other.
struct Elements {
  std::vector<chunk::ElementRange> ranges;
  HeldBytes boundaries;

  static Result<Elements> Of(BufferPool& pool, std::span<const ColumnPart> parts, bool ragged) {
    Elements elements;
    elements.ranges.reserve(parts.size());
    if (!ragged) {
      for (const ColumnPart& part : parts) elements.ranges.push_back(ShapedElements(part));
      return elements;
    }
    std::uint64_t rows = 0;
    for (const ColumnPart& part : parts) rows += part.count;
    TFOS_ASSIGN_OR_RETURN(Buffer boundaries, AllocateBoundaries(pool, rows));
    std::byte* to = boundaries.data + sizeof(std::uint64_t);
    std::uint64_t base = 0;
    for (const ColumnPart& part : parts) {
      elements.ranges.push_back(WriteBoundaries(part, base, to));
      base += elements.ranges.back().size();
      to += part.count * sizeof(std::uint64_t);
    }
    elements.boundaries = std::move(boundaries.held);
    return elements;
  }
};

bool Aligned(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data) % chunk::kChunkAlignment == 0;
}

/// The numbers of all parts behind each other.
Result<HeldBytes> GatherNumbers(BufferPool& pool, std::span<const ColumnPart> parts,
                                std::span<const chunk::ElementRange> ranges) {
  if (parts.size() == 1 && parts[0].memory != nullptr) {
    const std::span<const std::byte> bytes = parts[0].column->BytesOf(ranges[0]);
    if (Aligned(bytes.data())) return HeldBytes{.bytes = bytes, .memory = parts[0].memory};
  }
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    total += parts[i].column->BytesOf(ranges[i]).size();
  }
  TFOS_ASSIGN_OR_RETURN(Buffer data, Allocate(pool, total));
  std::byte* to = data.data;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::span<const std::byte> bytes = parts[i].column->BytesOf(ranges[i]);
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  }
  return std::move(data.held);
}

/// Calls visit(i, end) with where string i of the range ends, counted from the range's first byte,
/// for all of them. `bytes` are those of the range.
template <typename Visit>
void ForEachString(const chunk::ColumnView& column, chunk::ElementRange range,
                   std::span<const std::byte> bytes, Visit visit) {
  const auto begin = static_cast<std::uint64_t>(bytes.data() - column.data.data());
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < range.size(); ++i) {
    const std::uint64_t next = std::max(column.StringBoundary(range.begin + i + 1), begin) - begin;
    end = std::clamp<std::uint64_t>(next, end, bytes.size());
    visit(i, end);
  }
}

/// The strings of all parts, each where it lies, unless that may not be handed out.
Status GatherStrings(BufferPool& pool, std::span<const ColumnPart> parts,
                     std::span<const chunk::ElementRange> ranges, BatchColumn& gathered) {
  std::uint64_t strings = 0;
  for (const chunk::ElementRange& range : ranges) strings += range.size();
  gathered.strings.reserve(strings);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::span<const std::byte> bytes = parts[i].column->BytesOf(ranges[i]);
    const std::byte* from = bytes.data();
    if (parts[i].memory != nullptr) {
      gathered.strings_memory.push_back(parts[i].memory);
    } else if (!bytes.empty()) {
      TFOS_ASSIGN_OR_RETURN(Buffer copy, Allocate(pool, bytes.size()));
      std::memcpy(copy.data, bytes.data(), bytes.size());
      from = copy.data;
      gathered.strings_memory.push_back(std::move(copy.held.memory));
    }
    std::uint64_t at = 0;
    ForEachString(*parts[i].column, ranges[i], bytes, [&](std::uint64_t, std::uint64_t end) {
      gathered.strings.emplace_back(reinterpret_cast<const char*>(from) + at, end - at);
      at = end;
    });
  }
  return Status::Ok();
}

}  // namespace

std::string_view BatchEncodingName(BatchEncoding encoding) {
  return ChoiceName(kEncodings, encoding);
}

std::string_view BatchDTypeName(const BatchColumnType& type) {
  return type.dtype == chunk::DType::kNone ? "" : chunk::DTypeName(type.dtype);
}

Result<BatchColumnType> BatchTypeFrom(std::string name, std::string_view encoding,
                                      std::string_view dtype, std::vector<std::uint64_t> shape) {
  for (const Choice<BatchEncoding>& known : kEncodings) {
    if (known.name != encoding) continue;
    const bool strings = HoldsStrings(known.value);
    const chunk::DType type = strings ? chunk::DType::kNone : chunk::DTypeFromName(dtype);
    if (!strings && type == chunk::DType::kNone) break;
    return BatchColumnType{
        .name = std::move(name), .encoding = known.value, .dtype = type, .shape = std::move(shape)};
  }
  return Status(
      ErrorKind::kBadInput,
      fmt::format("column '{}' cannot be {} {}: a feed has none such", name, encoding, dtype));
}

chunk::ColumnView EmptyLists(std::uint64_t values) {
  chunk::ColumnView column;
  column.shape = {0};
  column.values = values;
  return column;
}

BatchColumnType BatchTypeOf(const std::string& name, const chunk::ColumnView& column) {
  return {
      .name = name, .encoding = EncodingOf(column), .dtype = column.dtype, .shape = column.shape};
}

Status CheckBatchType(const BatchColumnType& wanted, const chunk::ColumnView& column) {
  const BatchColumnType actual = BatchTypeOf(wanted.name, column);
  const bool of_same =
      wanted.dtype == actual.dtype && AsRagged(wanted.encoding) == AsRagged(actual.encoding);
  const bool same = wanted.shape == actual.shape &&
                    (!actual.known() || (of_same && wanted.encoding == actual.encoding));
  // Both hold lists of the same elements, and other lists may be longer.
  const bool of_lists =
      (of_same || !actual.known()) && (IsRagged(actual.encoding) || actual.shape.size() == 1);
  if (same || (of_lists && IsRagged(wanted.encoding))) return Status::Ok();
  const bool varies = of_lists && wanted.shape.size() == 1;
  return {ErrorKind::kBadInput,
          fmt::format("column '{}' comes as {} and was {} in the first chunk or in spec=: {}",
                      wanted.name, Describe(actual), Describe(wanted),
                      varies ? fmt::format("if its length varies, say ragged=['{}']", wanted.name)
                             : "give all rows one type and shape before feeding them")};
}

Result<BatchColumn> GatherColumn(BufferPool& pool, std::span<const ColumnPart> parts,
                                 BatchEncoding encoding) {
  TFOS_ASSIGN_OR_RETURN(Elements elements, Elements::Of(pool, parts, IsRagged(encoding)));
  BatchColumn gathered;
  gathered.boundaries = std::move(elements.boundaries);
  if (AsRagged(encoding) == BatchEncoding::kRaggedStrings) {
    TFOS_RETURN_IF_ERROR(GatherStrings(pool, parts, elements.ranges, gathered));
  } else {
    TFOS_ASSIGN_OR_RETURN(gathered.data, GatherNumbers(pool, parts, elements.ranges));
  }
  return gathered;
}

Result<OwnColumn> CopyColumn(BufferPool& pool, const ColumnPart& part) {
  const chunk::ColumnView& column = *part.column;
  TFOS_ASSIGN_OR_RETURN(Elements elements,
                        Elements::Of(pool, {&part, 1}, chunk::IsRagged(column.encoding)));
  const chunk::ElementRange range = elements.ranges[0];
  const std::span<const std::byte> bytes = column.BytesOf(range);
  OwnColumn own{.view = column, .memory = {}};
  own.view.values = part.count;
  own.view.elements = range.size();
  own.view.boundaries = elements.boundaries.bytes.data();
  own.memory.push_back(std::move(elements.boundaries));
  if (chunk::HoldsStrings(column.encoding)) {
    TFOS_ASSIGN_OR_RETURN(Buffer boundaries, AllocateBoundaries(pool, range.size()));
    ForEachString(column, range, bytes, [&](std::uint64_t i, std::uint64_t end) {
      Store(end, boundaries.data + (i + 1) * sizeof end);
    });
    own.view.string_boundaries = boundaries.data;
    own.memory.push_back(std::move(boundaries.held));
  }
  TFOS_ASSIGN_OR_RETURN(Buffer data, Allocate(pool, bytes.size()));
  if (!bytes.empty()) std::memcpy(data.data, bytes.data(), bytes.size());
  own.view.data = data.held.bytes;
  own.memory.push_back(std::move(data.held));
  return own;
}

}  // namespace tfos::columns
