#include "chunk/chunk.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/format.h"

namespace tfos::chunk {
namespace {

constexpr std::uint32_t kMagic = 0x31434654;  // "TFC1"
constexpr std::uint16_t kVersion = 1;

// Chunks are far below this, so that sums of a few sizes cannot overflow.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 48;

struct Header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint8_t kind;
  std::uint8_t reserved0;
  std::uint64_t bytes;
  std::int64_t rows;
  std::uint32_t columns;
  std::uint32_t structure_offset;
  std::uint32_t structure_bytes;
  std::uint8_t reserved1[28];
};
static_assert(sizeof(Header) == 64);

struct ColumnEntry {
  std::uint8_t encoding;
  std::uint8_t dtype;
  std::uint8_t rank;
  std::uint8_t reserved0;
  std::uint32_t shape_offset;
  std::uint32_t name_offset;
  std::uint32_t name_bytes;
  std::uint64_t values;
  std::uint64_t data_offset;
  std::uint64_t data_bytes;
  std::uint64_t boundaries_offset;
  std::uint64_t strings;
  std::uint64_t string_boundaries_offset;
};
static_assert(sizeof(ColumnEntry) == 64);

constexpr std::uint64_t AlignUp(std::uint64_t value) {
  return tfos::AlignUp(value, kChunkAlignment);
}

/// a * b, or kMaxBytes + 1 when the product is larger than any chunk.
std::uint64_t CappedProduct(std::uint64_t a, std::uint64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a > kMaxBytes / b) return kMaxBytes + 1;
  return a * b;
}

/// Elements of a value of this shape, capped like CappedProduct. A dimension of 0 wins over large
/// ones, whatever their order.
std::uint64_t ElementsIn(const std::vector<std::uint64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return 0;
  std::uint64_t elements = 1;
  for (std::uint64_t dimension : shape) elements = CappedProduct(elements, dimension);
  return elements;
}

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
    return LoadAt<std::uint64_t>(boundaries + index * sizeof(std::uint64_t));
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
        LoadAt<std::uint64_t>(chunk.data() + entry.shape_offset + i * sizeof(std::uint64_t));
  }
  if (!IsRagged(column.encoding)) column.value_elements = ElementsIn(column.shape);
  TFOS_RETURN_IF_ERROR(column.encoding == ColumnEncoding::kTensor
                           ? ParseTensor(entry, column)
                           : ParseElements(chunk, entry, column));
  return column;
}

}  // namespace

std::size_t DTypeBytes(DType dtype) {
  switch (dtype) {
    case DType::kNone:
      return 0;
    case DType::kBool:
    case DType::kInt8:
    case DType::kUint8:
      return 1;
    case DType::kInt16:
    case DType::kUint16:
    case DType::kFloat16:
      return 2;
    case DType::kInt32:
    case DType::kUint32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kUint64:
    case DType::kFloat64:
    case DType::kComplex64:
      return 8;
    case DType::kComplex128:
      return 16;
  }
  return 0;
}

std::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kNone:
      return "none";
    case DType::kBool:
      return "bool";
    case DType::kInt8:
      return "int8";
    case DType::kInt16:
      return "int16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUint8:
      return "uint8";
    case DType::kUint16:
      return "uint16";
    case DType::kUint32:
      return "uint32";
    case DType::kUint64:
      return "uint64";
    case DType::kFloat16:
      return "float16";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kComplex64:
      return "complex64";
    case DType::kComplex128:
      return "complex128";
  }
  return "unknown";
}

ChunkBuilder::ChunkBuilder(ChunkKind kind, std::int64_t rows, std::string structure)
    : kind_(kind), rows_(rows), structure_(std::move(structure)) {}

std::size_t ChunkBuilder::AddColumn(ColumnSpec spec) {
  columns_.push_back({.spec = std::move(spec)});
  return columns_.size() - 1;
}

Status ChunkBuilder::PlanColumn(PlannedColumn& column) {
  ColumnSpec& spec = column.spec;
  if (spec.shape.size() > kMaxTensorRank) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a tensor has {} dimensions; a chunk takes at most {}",
                              spec.shape.size(), kMaxTensorRank));
  }
  if (spec.name.size() > kMaxColumnNameBytes) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a column name has {} bytes; a chunk takes at most {}",
                              spec.name.size(), kMaxColumnNameBytes));
  }
  const std::uint64_t elements = CappedProduct(ElementsIn(spec.shape), spec.values);
  if (IsRagged(spec.encoding)) column.boundaries_offset = PlanBoundaries(spec.values);
  if (spec.encoding == ColumnEncoding::kTensor) {
    spec.data_bytes = CappedProduct(elements, DTypeBytes(spec.dtype));
  } else if (HoldsStrings(spec.encoding)) {
    if (!IsRagged(spec.encoding)) spec.strings = elements;
    column.string_boundaries_offset = PlanBoundaries(spec.strings);
  }
  if (spec.data_bytes > kMaxBytes || bytes_ > kMaxBytes) {
    return Status(ErrorKind::kBadInput, "a column is larger than any chunk may be");
  }
  column.data_offset = bytes_;
  bytes_ = AlignUp(bytes_ + spec.data_bytes);
  if (bytes_ > kMaxBytes) return Status(ErrorKind::kBadInput, "the chunk would be too large");
  return Status::Ok();
}

/// Puts the boundaries of so many parts behind what was planned; where they are.
std::uint64_t ChunkBuilder::PlanBoundaries(std::uint64_t parts) {
  const std::uint64_t offset = bytes_;
  bytes_ = AlignUp(bytes_ + CappedProduct(parts + 1, sizeof(std::uint64_t)));
  return offset;
}

Result<std::uint64_t> ChunkBuilder::Plan() {
  if (columns_.size() > kMaxChunkColumns) {
    return Status(ErrorKind::kBadInput, fmt::format("{} columns; a chunk takes at most {}",
                                                    columns_.size(), kMaxChunkColumns));
  }
  if (structure_.size() > kMaxRowStructureBytes) {
    return Status(ErrorKind::kBadInput, fmt::format("{} bytes of row structure; at most {} fit",
                                                    structure_.size(), kMaxRowStructureBytes));
  }
  if (rows_ > kMaxChunkRows) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("{} rows; a chunk takes at most {}", rows_, kMaxChunkRows));
  }
  // At most 4096 * (64 + 256 + 1024) bytes and the structure: 32 bits are plenty.
  std::uint64_t at = sizeof(Header) + columns_.size() * sizeof(ColumnEntry);
  for (PlannedColumn& column : columns_) {
    column.shape_offset = static_cast<std::uint32_t>(at);
    at += column.spec.shape.size() * sizeof(std::uint64_t);
  }
  for (PlannedColumn& column : columns_) {
    column.name_offset = static_cast<std::uint32_t>(at);
    at += column.spec.name.size();
  }
  structure_offset_ = static_cast<std::uint32_t>(at);
  bytes_ = AlignUp(at + structure_.size());
  for (PlannedColumn& column : columns_) TFOS_RETURN_IF_ERROR(PlanColumn(column));
  return bytes_;
}

Status ChunkBuilder::Begin(std::span<std::byte> out) {
  if (out.size() < bytes_) {
    return Status(ErrorKind::kBug,
                  fmt::format("a chunk of {} bytes was given room for {}", bytes_, out.size()));
  }
  base_ = out.data();
  const std::uint64_t front = AlignUp(std::uint64_t{structure_offset_} + structure_.size());
  std::memset(base_, 0, front);
  Header header{.magic = kMagic,
                .version = kVersion,
                .kind = static_cast<std::uint8_t>(kind_),
                .reserved0 = 0,
                .bytes = bytes_,
                .rows = rows_,
                .columns = static_cast<std::uint32_t>(columns_.size()),
                .structure_offset = structure_offset_,
                .structure_bytes = static_cast<std::uint32_t>(structure_.size()),
                .reserved1 = {}};
  StoreAt(base_, header);
  std::byte* table = base_ + sizeof(Header);
  for (const PlannedColumn& column : columns_) {
    const ColumnSpec& spec = column.spec;
    const bool ragged = IsRagged(spec.encoding);
    const bool strings = HoldsStrings(spec.encoding);
    StoreAt(table,
            ColumnEntry{.encoding = static_cast<std::uint8_t>(spec.encoding),
                        .dtype = static_cast<std::uint8_t>(spec.dtype),
                        .rank = static_cast<std::uint8_t>(spec.shape.size()),
                        .reserved0 = 0,
                        .shape_offset = column.shape_offset,
                        .name_offset = column.name_offset,
                        .name_bytes = static_cast<std::uint32_t>(spec.name.size()),
                        .values = spec.values,
                        .data_offset = column.data_offset,
                        .data_bytes = spec.data_bytes,
                        .boundaries_offset =
                            ragged ? column.boundaries_offset : column.string_boundaries_offset,
                        .strings = ragged && strings ? spec.strings : 0,
                        .string_boundaries_offset = ragged ? column.string_boundaries_offset : 0});
    table += sizeof(ColumnEntry);
    for (std::size_t i = 0; i < spec.shape.size(); ++i) {
      StoreAt(base_ + column.shape_offset + i * sizeof(std::uint64_t), spec.shape[i]);
    }
    std::memcpy(base_ + column.name_offset, spec.name.data(), spec.name.size());
    if (ragged) BeginBoundaries(column.boundaries_offset, spec.values);
    if (strings) BeginBoundaries(column.string_boundaries_offset, spec.strings);
    const std::uint64_t end = column.data_offset + spec.data_bytes;
    std::memset(base_ + end, 0, AlignUp(end) - end);
  }
  std::memcpy(base_ + structure_offset_, structure_.data(), structure_.size());
  return Status::Ok();
}

void ChunkBuilder::BeginBoundaries(std::uint64_t offset, std::uint64_t parts) {
  const std::uint64_t end = offset + (parts + 1) * sizeof(std::uint64_t);
  StoreAt(base_ + offset, std::uint64_t{0});
  std::memset(base_ + end, 0, AlignUp(end) - end);
}

std::span<std::byte> ChunkBuilder::data(std::size_t column) {
  const PlannedColumn& planned = columns_[column];
  return {base_ + planned.data_offset, planned.spec.data_bytes};
}

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
  const Header header = LoadAt<Header>(bytes.data());
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
    const auto entry = LoadAt<ColumnEntry>(bytes.data() + sizeof(Header) + i * sizeof(ColumnEntry));
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
