#ifndef TFOS_CHUNK_CHUNK_H_
#define TFOS_CHUNK_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory/aligned_buffer.h"
#include "base/memory/unaligned.h"
#include "chunk/dtype.h"
#include "tfos/status.h"

namespace tfos::chunk {

// A batch of rows as bytes: docs/formats/chunk.md. Nothing here knows about Python.

/// Chunks and their columns start at multiples of this, so that tensors can wrap them.
inline constexpr std::size_t kChunkAlignment = kBufferAlignment;
inline constexpr std::size_t kMaxChunkColumns = 4096;
inline constexpr std::size_t kMaxTensorRank = 32;
inline constexpr std::size_t kMaxColumnNameBytes = 1024;
inline constexpr std::size_t kMaxRowStructureBytes = std::size_t{1} << 20;
inline constexpr std::int64_t kMaxChunkRows = std::int64_t{1} << 32;
inline constexpr std::int64_t kUnknownRows = -1;

// The numbers of the enumerations are those of the format.

enum class ChunkKind : std::uint8_t { kColumnar = 0, kPickledRows = 1, kPickledBatches = 2 };

enum class ColumnEncoding : std::uint8_t {
  kTensor = 0,
  kRagged = 1,
  kBytes = 2,
  kText = 3,
  kOpaque = 4,
  kRaggedBytes = 5,
  kRaggedText = 6,
};

/// Whether values may have different lengths, counted in elements: numbers or strings.
constexpr bool IsRagged(ColumnEncoding encoding) {
  return encoding == ColumnEncoding::kRagged || encoding == ColumnEncoding::kRaggedBytes ||
         encoding == ColumnEncoding::kRaggedText;
}

/// Whether the elements are strings of bytes rather than numbers.
constexpr bool HoldsStrings(ColumnEncoding encoding) {
  return encoding != ColumnEncoding::kTensor && encoding != ColumnEncoding::kRagged;
}

/// Whether they are strings of UTF-8.
constexpr bool HoldsText(ColumnEncoding encoding) {
  return encoding == ColumnEncoding::kText || encoding == ColumnEncoding::kRaggedText;
}

/// Whether all values have one shape, of any rank.
constexpr bool HasShape(ColumnEncoding encoding) {
  return !IsRagged(encoding) && encoding != ColumnEncoding::kOpaque;
}

/// What a column will hold; the input of ChunkBuilder.
struct ColumnSpec {
  ColumnEncoding encoding = ColumnEncoding::kTensor;
  DType dtype = DType::kNone;        ///< kTensor and kRagged only.
  std::vector<std::uint64_t> shape;  ///< Of one value; HasShape only.
  std::uint64_t values = 0;
  std::uint64_t strings = 0;     ///< Of all values; kRaggedBytes and kRaggedText only.
  std::uint64_t data_bytes = 0;  ///< Of all values; not for kTensor, which computes it.
  std::string name;
};

/// Lays a chunk out and writes its fixed parts; the caller writes the columns in place, straight
/// into the memory that will be sent.
///
/// Owner and lifetime: a value. After `Begin` the spans it hands out borrow the caller's memory.
/// Threads: one at a time.
/// Errors: kBadInput beyond a limit of the format. Units: bytes.
class ChunkBuilder {
 public:
  /// `structure` is a serialised RowStructure; empty unless `kind` is kColumnar.
  ChunkBuilder(ChunkKind kind, std::int64_t rows, std::string structure = {});

  /// Returns the column's number, counted from 0.
  std::size_t AddColumn(ColumnSpec spec);

  /// Fixes the layout once all columns are added. Returns the bytes that the chunk needs.
  Result<std::uint64_t> Plan();
  /// After `Plan`.
  std::uint64_t bytes() const { return bytes_; }

  /// Writes everything but column data to the front of `out`, which holds at least `bytes()`, and
  /// zeroes the gaps. Call it after `Plan`; it may be repeated with other memory.
  Status Begin(std::span<std::byte> out);

  /// After `Begin`: where the data of a column goes.
  std::span<std::byte> data(std::size_t column);
  /// After `Plan`: how many strings there are in all values of a column of them.
  std::uint64_t strings(std::size_t column) const { return columns_[column].spec.strings; }
  /// After `Begin`: stores boundary `index` (0 to values, both included) of a ragged column, in
  /// elements. Boundary 0 is already written.
  void SetBoundary(std::size_t column, std::uint64_t index, std::uint64_t value) {
    Store(value, base_ + columns_[column].boundaries_offset + index * sizeof value);
  }
  /// Likewise of the strings (0 to their number) of a column that holds some, in bytes.
  void SetStringBoundary(std::size_t column, std::uint64_t index, std::uint64_t value) {
    Store(value, base_ + columns_[column].string_boundaries_offset + index * sizeof value);
  }

 private:
  struct PlannedColumn {
    ColumnSpec spec;
    std::uint32_t shape_offset = 0;
    std::uint32_t name_offset = 0;
    std::uint64_t data_offset = 0;
    std::uint64_t boundaries_offset = 0;         ///< Ragged columns only.
    std::uint64_t string_boundaries_offset = 0;  ///< Columns of strings only.
  };

  Status PlanColumn(PlannedColumn& column);
  std::uint64_t PlanBoundaries(std::uint64_t parts);
  void BeginBoundaries(std::uint64_t offset, std::uint64_t parts);

  ChunkKind kind_;
  std::int64_t rows_;
  std::string structure_;
  std::vector<PlannedColumn> columns_;
  std::uint32_t structure_offset_ = 0;
  std::uint64_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

/// Whether the header says that the chunk is columnar, before anything was checked.
bool SaysColumnar(std::span<const std::byte> chunk);

/// Elements [begin, end) of a column: numbers or strings, in the order of the values they are of.
struct ElementRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
};

/// One column of a parsed chunk. Borrows the chunk's bytes. What it hands out never leaves `data`,
/// even if the boundaries were overwritten after they had been checked.
struct ColumnView {
  ColumnEncoding encoding = ColumnEncoding::kTensor;
  DType dtype = DType::kNone;
  std::vector<std::uint64_t> shape;
  std::string_view name;
  std::uint64_t values = 0;
  std::uint64_t value_elements = 0;  ///< Of one value; not for ragged columns.
  std::uint64_t value_bytes = 0;     ///< Of one value; kTensor only.
  std::uint64_t elements = 0;        ///< Of all values.
  std::span<const std::byte> data;
  const std::byte* boundaries = nullptr;         ///< values + 1 of them; ragged columns only.
  const std::byte* string_boundaries = nullptr;  ///< elements + 1 of them; strings only.

  /// In elements. `index` is at most `values`.
  std::uint64_t Boundary(std::uint64_t index) const {
    return Load<std::uint64_t>(boundaries + index * sizeof(std::uint64_t));
  }
  /// In bytes. `index` is at most `elements`.
  std::uint64_t StringBoundary(std::uint64_t index) const {
    return Load<std::uint64_t>(string_boundaries + index * sizeof(std::uint64_t));
  }
  /// Those of value `index`, which is less than `values`.
  ElementRange ElementsOf(std::uint64_t index) const;
  /// The bytes of elements, of which there are so many.
  std::span<const std::byte> BytesOf(ElementRange range) const;
  /// The bytes of value `index`.
  std::span<const std::byte> Value(std::uint64_t index) const { return BytesOf(ElementsOf(index)); }
};

/// A chunk that was checked from end to end: whatever the bytes were, and whatever a feeder does to
/// them later, the accessors never leave them.
///
/// Owner and lifetime: a value that borrows the bytes given to `Parse`; nobody may change those
/// meanwhile, or their content is undefined. Threads: safe to read from several.
/// Errors: kBadInput for bytes that aren't a chunk, kUnsupported for another version.
class ChunkView {
 public:
  static Result<ChunkView> Parse(std::span<const std::byte> bytes);

  ChunkKind kind() const { return kind_; }
  /// kUnknownRows for kPickledBatches.
  std::int64_t rows() const { return rows_; }
  std::uint64_t bytes() const { return bytes_; }
  const std::vector<ColumnView>& columns() const { return columns_; }
  /// Not yet interpreted; ParseRowStructure does.
  std::span<const std::byte> structure() const { return structure_; }

 private:
  ChunkView() = default;
  Status CheckKind() const;

  ChunkKind kind_ = ChunkKind::kColumnar;
  std::int64_t rows_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<ColumnView> columns_;
  std::span<const std::byte> structure_;
};

}  // namespace tfos::chunk

#endif  // TFOS_CHUNK_CHUNK_H_
