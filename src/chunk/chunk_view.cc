#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/format.h"
#include "chunk/chunk.h"
#include "chunk/layout.h"

namespace tfos::chunk {
namespace {

Status Bad(std::string what) {
  return Status(ErrorKind::kBadInput, fmt::format("not a valid chunk: {}", what));
}

bool AllZero(std::span<const std::uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

/// True when [offset, offset + size) lies inside `total` bytes.
bool Inside(std::uint64_t offset, std::uint64_t size, std::uint64_t total) {
  return offset <= total && size <= total - offset;
}

/// Takes the boundaries of so many parts, which the table puts at `offset`: they must begin at
/// 0, never fall and end at `last`.
Result<const std::byte*> ParseBoundaries(std::span<const std::byte> chunk, std::uint64_t offset,
                                         std::uint64_t parts, std::uint64_t last) {
  if (offset % kChunkAlignment != 0 ||
      !Inside(offset, CappedProduct(parts + 1, sizeof(std::uint64_t)), chunk.size())) {
    return Bad("the boundaries of a column lie outside");
  }
  const std::byte* const boundaries = chunk.data() + offset;
  const auto boundary = [&](std::uint64_t index) {
    return Load<std::uint64_t>(boundaries + index * sizeof(std::uint64_t));
  };
  std::uint64_t previous = boundary(0);
  if (previous != 0) return Bad("the first boundary is not 0");
  for (std::uint64_t i = 1; i <= parts; ++i) {
    const std::uint64_t next = boundary(i);
    if (next < previous) return Bad(fmt::format("boundary {} falls", i));
    previous = next;
  }
  if (previous != last) return Bad("the last boundary is not the end of the data");
  return boundaries;
}

Status ParseTensor(const ColumnEntry& entry, ColumnView& column) {
  if (entry.boundaries_offset != 0) return Bad("a tensor has boundaries");
  column.value_bytes = CappedProduct(column.value_elements, DTypeBytes(column.dtype));
  if (CappedProduct(column.value_bytes, column.values) != column.data.size()) {
    return Bad("the data of a tensor has not the length that its shape needs");
  }
  column.elements = column.data.size() / DTypeBytes(column.dtype);
  return Status::Ok();
}

Status ParseElements(std::span<const std::byte> chunk, const ColumnEntry& entry,
                     ColumnView& column) {
  const bool ragged = IsRagged(column.encoding);
  const bool strings = HoldsStrings(column.encoding);
  if (!ragged) {
    column.elements = CappedProduct(column.value_elements, column.values);
  } else if (strings) {
    column.elements = std::min(entry.strings, kMaxBytes + 1);
  } else {
    column.elements = column.data.size() / DTypeBytes(column.dtype);
    if (column.data.size() % DTypeBytes(column.dtype) != 0) {
      return Bad("the data of a ragged column ends within an element");
    }
  }
  if (ragged) {
    TFOS_ASSIGN_OR_RETURN(column.boundaries, ParseBoundaries(chunk, entry.boundaries_offset,
                                                             column.values, column.elements));
  }
  if (strings) {
    const std::uint64_t offset = ragged ? entry.string_boundaries_offset : entry.boundaries_offset;
    TFOS_ASSIGN_OR_RETURN(column.string_boundaries,
                          ParseBoundaries(chunk, offset, column.elements, column.data.size()));
  }
  return Status::Ok();
}

Result<ColumnView> ParseColumn(std::span<const std::byte> chunk, const ColumnEntry& entry) {
  if (entry.encoding > static_cast<std::uint8_t>(ColumnEncoding::kRaggedText)) {
    return Bad(fmt::format("encoding {} does not exist", entry.encoding));
  }
  ColumnView column;
  column.encoding = static_cast<ColumnEncoding>(entry.encoding);
  column.dtype = static_cast<DType>(entry.dtype);
  column.values = entry.values;

  const bool strings = HoldsStrings(column.encoding);
  const bool two_levels = strings && IsRagged(column.encoding);
  if (entry.reserved0 != 0 ||
      (!two_levels && (entry.strings != 0 || entry.string_boundaries_offset != 0))) {
    return Bad("a reserved byte is set");
  }
  if (strings ? column.dtype != DType::kNone : DTypeBytes(column.dtype) == 0) {
    return Bad(fmt::format("dtype {} in a column of encoding {}", entry.dtype, entry.encoding));
  }
  if (column.values > static_cast<std::uint64_t>(kMaxChunkRows)) return Bad("too many values");
  if (entry.rank > (HasShape(column.encoding) ? kMaxTensorRank : 0)) {
    return Bad(fmt::format("a column has rank {}", entry.rank));
  }
  if (!Inside(entry.shape_offset, entry.rank * sizeof(std::uint64_t), chunk.size()) ||
      entry.name_bytes > kMaxColumnNameBytes ||
      !Inside(entry.name_offset, entry.name_bytes, chunk.size()) ||
      entry.data_offset % kChunkAlignment != 0 ||
      !Inside(entry.data_offset, entry.data_bytes, chunk.size())) {
    return Bad("a part of a column lies outside");
  }
  column.name = {reinterpret_cast<const char*>(chunk.data()) + entry.name_offset, entry.name_bytes};
  column.data = chunk.subspan(entry.data_offset, entry.data_bytes);
  column.shape.resize(entry.rank);
  for (std::size_t i = 0; i < entry.rank; ++i) {
    column.shape[i] =
        Load<std::uint64_t>(chunk.data() + entry.shape_offset + i * sizeof(std::uint64_t));
  }
  if (!IsRagged(column.encoding)) column.value_elements = ElementsIn(column.shape);
  TFOS_RETURN_IF_ERROR(column.encoding == ColumnEncoding::kTensor
                           ? ParseTensor(entry, column)
                           : ParseElements(chunk, entry, column));
  return column;
}

}  // namespace

ElementRange ColumnView::ElementsOf(std::uint64_t index) const {
  if (!IsRagged(encoding)) return {index * value_elements, (index + 1) * value_elements};
  const std::uint64_t begin = std::min(Boundary(index), elements);
  return {begin, std::clamp(Boundary(index + 1), begin, elements)};
}

std::span<const std::byte> ColumnView::BytesOf(ElementRange range) const {
  if (!HoldsStrings(encoding)) {
    const std::size_t bytes = DTypeBytes(dtype);
    return data.subspan(range.begin * bytes, range.size() * bytes);
  }
  const std::uint64_t begin = std::min<std::uint64_t>(StringBoundary(range.begin), data.size());
  const std::uint64_t end =
      std::clamp<std::uint64_t>(StringBoundary(range.end), begin, data.size());
  return data.subspan(begin, end - begin);
}

bool SaysColumnar(std::span<const std::byte> chunk) {
  return chunk.size() >= sizeof(Header) &&
         chunk[offsetof(Header, kind)] == static_cast<std::byte>(ChunkKind::kColumnar);
}

Result<ChunkView> ChunkView::Parse(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Header)) return Bad("shorter than a header");
  const Header header = Load<Header>(bytes.data());
  if (header.magic != kMagic) return Bad("wrong magic number");
  if (header.version != kVersion) {
    return Status(ErrorKind::kUnsupported,
                  fmt::format("the chunk has format version {}; this build reads version {}",
                              header.version, kVersion));
  }
  if (header.reserved0 != 0 || !AllZero(header.reserved1)) return Bad("a reserved byte is set");
  if (header.kind > static_cast<std::uint8_t>(ChunkKind::kPickledBatches)) {
    return Bad(fmt::format("kind {} does not exist", header.kind));
  }
  if (header.bytes > bytes.size()) {
    return Bad(fmt::format("{} bytes arrived of {}", bytes.size(), header.bytes));
  }
  bytes = bytes.first(header.bytes);
  if (header.rows < kUnknownRows || header.rows > kMaxChunkRows) {
    return Bad(fmt::format("{} rows", header.rows));
  }
  if (header.columns > kMaxChunkColumns ||
      !Inside(sizeof(Header), header.columns * sizeof(ColumnEntry), bytes.size())) {
    return Bad(fmt::format("{} columns", header.columns));
  }
  if (header.structure_bytes > kMaxRowStructureBytes ||
      !Inside(header.structure_offset, header.structure_bytes, bytes.size())) {
    return Bad("the row structure lies outside");
  }
  ChunkView view;
  view.kind_ = static_cast<ChunkKind>(header.kind);
  view.rows_ = header.rows;
  view.bytes_ = header.bytes;
  view.structure_ = bytes.subspan(header.structure_offset, header.structure_bytes);
  view.columns_.reserve(header.columns);
  for (std::uint32_t i = 0; i < header.columns; ++i) {
    const auto entry = Load<ColumnEntry>(bytes.data() + sizeof(Header) + i * sizeof(ColumnEntry));
    TFOS_ASSIGN_OR_RETURN(ColumnView column, ParseColumn(bytes, entry));
    view.columns_.push_back(std::move(column));
  }
  TFOS_RETURN_IF_ERROR(view.CheckKind());
  return view;
}

Status ChunkView::CheckKind() const {
  if ((rows_ == kUnknownRows) != (kind_ == ChunkKind::kPickledBatches)) {
    return Bad(fmt::format("{} rows in kind {}", rows_, static_cast<int>(kind_)));
  }
  if (kind_ == ChunkKind::kColumnar) {
    for (const ColumnView& column : columns_) {
      if (column.encoding == ColumnEncoding::kOpaque) return Bad("a columnar chunk is opaque");
      if (column.values != static_cast<std::uint64_t>(rows_)) {
        return Bad("a column has not as many values as there are rows");
      }
    }
    return Status::Ok();
  }
  if (columns_.size() != 1 || columns_[0].encoding != ColumnEncoding::kOpaque) {
    return Bad("pickles need exactly one opaque column");
  }
  if (!structure_.empty()) return Bad("pickles have no row structure");
  if (kind_ == ChunkKind::kPickledRows && columns_[0].values == 0) {
    return Bad("the pickle of the rows is missing");
  }
  return Status::Ok();
}

}  // namespace tfos::chunk
