#ifndef TFOS_COLUMNS_BATCH_COLUMNS_H_
#define TFOS_COLUMNS_BATCH_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory/buffer_pool.h"
#include "chunk/chunk.h"
#include "tfos/status.h"

namespace tfos::columns {

// The columns of batches, put together out of those of chunks.

/// How the values of a column follow each other in a batch.
enum class BatchEncoding : std::uint8_t {
  kDense,          ///< One array: rows, then the shape of one value.
  kRagged,         ///< One flat array, and where each row's elements begin and end.
  kStrings,        ///< As kDense, of strings, wherever each lies.
  kRaggedStrings,  ///< As kRagged, of strings, wherever each lies.
};

/// What a column holds, in every batch.
struct BatchColumnType {
  std::string name;
  BatchEncoding encoding = BatchEncoding::kDense;
  chunk::DType dtype = chunk::DType::kNone;  ///< kNone for strings and EmptyLists.
  std::vector<std::uint64_t> shape = {};     ///< Of one value; kDense and kStrings only.

  /// Not for EmptyLists.
  bool known() const { return encoding != BatchEncoding::kDense || dtype != chunk::DType::kNone; }

  friend bool operator==(const BatchColumnType&, const BatchColumnType&) = default;
};

/// A column of so many lists that are all empty. Nothing says of what they are lists, so it passes
/// for lists of anything.
chunk::ColumnView EmptyLists(std::uint64_t values);

/// "dense", "ragged", "strings" or "ragged strings". Threads: any.
std::string_view BatchEncodingName(BatchEncoding encoding);
/// NumPy's name of the type of its values; an empty one for strings and EmptyLists. Threads: any.
std::string_view BatchDTypeName(const BatchColumnType& type);
/// A column by the names that the two functions above give; `dtype` does not count for strings.
/// Bad input, which names the column, for what a feed does not have. Threads: any.
Result<BatchColumnType> BatchTypeFrom(std::string name, std::string_view encoding,
                                      std::string_view dtype, std::vector<std::uint64_t> shape);

/// Bytes and what keeps them. They start at a multiple of 64 bytes.
///
/// Owner and lifetime: a value; the bytes stay as long as one copy of `memory` does. They may be
/// in a feeder's memory, and keeping them does no harm: see BatchReader. Threads: any.
struct HeldBytes {
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> memory = {};
};

struct BatchColumn {
  HeldBytes data;  ///< Not for strings.
  /// Ragged ones: rows + 1 numbers of 64 bits that start at 0 and count elements.
  HeldBytes boundaries;
  std::vector<std::string_view> strings = {};                    ///< Bytes, any; of all rows.
  std::vector<std::shared_ptr<const void>> strings_memory = {};  ///< Keeps them.
};

/// The type that values of a chunk's column have in batches.
BatchColumnType BatchTypeOf(const std::string& name, const chunk::ColumnView& column);

/// Whether such values can be handed out as `wanted`: those of one shape of one dimension may be
/// taken for ragged ones. Errors: kBadInput, which says what to do.
Status CheckBatchType(const BatchColumnType& wanted, const chunk::ColumnView& column);

/// Some values of one column of one chunk.
struct ColumnPart {
  const chunk::ColumnView* column = nullptr;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  /// The memory of the column, if it may be handed out; null: copy.
  std::shared_ptr<const void> memory = {};
};

/// The values of all parts, which CheckBatchType has let pass for `encoding`, as one column. They
/// stay where they are if there is one part whose memory may be handed out and which is aligned;
/// strings need not be for that. Errors: kNoResources without memory.
Result<BatchColumn> GatherColumn(BufferPool& pool, std::span<const ColumnPart> parts,
                                 BatchEncoding encoding);

/// A column in memory of its own.
struct OwnColumn {
  chunk::ColumnView view;
  std::vector<HeldBytes> memory;  ///< What the view borrows, except its name.
};

/// Copies the values of a part. Errors: kNoResources without memory.
Result<OwnColumn> CopyColumn(BufferPool& pool, const ColumnPart& part);

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_BATCH_COLUMNS_H_
