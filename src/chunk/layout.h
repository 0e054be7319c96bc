#ifndef TFOS_CHUNK_LAYOUT_H_
#define TFOS_CHUNK_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "chunk/chunk.h"

// How docs/formats/chunk.md lays a chunk out, for those that write and read it.

namespace tfos::chunk {

inline constexpr std::uint32_t kMagic = 0x31434654;  // "TFC1"
inline constexpr std::uint16_t kVersion = 1;

// Chunks are far below this, so that sums of a few sizes cannot overflow.
inline constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 48;

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
inline std::uint64_t CappedProduct(std::uint64_t a, std::uint64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a > kMaxBytes / b) return kMaxBytes + 1;
  return a * b;
}

/// Elements of a value of this shape, capped like CappedProduct. A dimension of 0 wins over large
/// ones, whatever their order.
inline std::uint64_t ElementsIn(const std::vector<std::uint64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return 0;
  std::uint64_t elements = 1;
  for (std::uint64_t dimension : shape) elements = CappedProduct(elements, dimension);
  return elements;
}

}  // namespace tfos::chunk

#endif  // TFOS_CHUNK_LAYOUT_H_
