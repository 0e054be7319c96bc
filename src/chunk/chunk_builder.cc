#include <cstddef>
#include <cstring>
#include <utility>

#include "base/format.h"
#include "chunk/chunk.h"
#include "chunk/layout.h"

namespace tfos::chunk {

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
  Store(header, base_);
  std::byte* table = base_ + sizeof(Header);
  for (const PlannedColumn& column : columns_) {
    const ColumnSpec& spec = column.spec;
    const bool ragged = IsRagged(spec.encoding);
    const bool strings = HoldsStrings(spec.encoding);
    Store(ColumnEntry{.encoding = static_cast<std::uint8_t>(spec.encoding),
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
                      .string_boundaries_offset = ragged ? column.string_boundaries_offset : 0},
          table);
    table += sizeof(ColumnEntry);
    for (std::size_t i = 0; i < spec.shape.size(); ++i) {
      Store(spec.shape[i], base_ + column.shape_offset + i * sizeof(std::uint64_t));
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
  Store(std::uint64_t{0}, base_ + offset);
  std::memset(base_ + end, 0, AlignUp(end) - end);
}

std::span<std::byte> ChunkBuilder::data(std::size_t column) {
  const PlannedColumn& planned = columns_[column];
  return {base_ + planned.data_offset, planned.spec.data_bytes};
}

}  // namespace tfos::chunk
