#ifndef TFOS_RECORDS_EXAMPLE_ELEMENTS_H_
#define TFOS_RECORDS_EXAMPLE_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "arrow/export.h"
#include "base/memory/buffer_pool.h"
#include "records/schema/example_schema.h"

namespace tfos::records {

/// Why values could not be taken over.
enum class Problem : std::uint8_t {
  kNone,
  kMalformed,   ///< The bytes aren't a list of such values.
  kOutOfRange,  ///< An integer that the column's type does not hold.
  kNotUtf8,
  kTooMany,  ///< More than Arrow's offsets reach.
};

/// More elements, or bytes of strings, a column of Arrow cannot have.
inline constexpr std::size_t kMostElements = INT32_MAX;

/// The values of one column, one behind the other, as Arrow has them.
///
/// Owner and lifetime: owns its buffers until they are taken, and borrows the pool that they are
/// of. Threads: one at a time. Errors: what a failed call appended stays until it is truncated.
class Elements {
 public:
  static std::unique_ptr<Elements> Create(ElementType type, BufferPool& pool);
  virtual ~Elements() = default;

  /// Appends the values of a BytesList, FloatList or Int64List, whichever `KindOf` the type says.
  virtual Problem Append(std::span<const std::byte> list) = 0;
  /// Appends a string or binary; kMalformed for elements of another type.
  virtual Problem AppendBytes(std::span<const std::byte> /*bytes*/) { return Problem::kMalformed; }
  /// Appends zeros, or empty strings: what lies under a null.
  virtual void AppendZeros(std::size_t count) = 0;
  virtual std::size_t size() const = 0;
  /// Drops what is behind the first `size` values.
  virtual void Truncate(std::size_t size) = 0;
  /// Moves the values into `field`, behind its bitmap, and begins anew.
  virtual void Take(arrow::Field& field) = 0;
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_EXAMPLE_ELEMENTS_H_
