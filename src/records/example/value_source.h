#ifndef TFOS_RECORDS_EXAMPLE_VALUE_SOURCE_H_
#define TFOS_RECORDS_EXAMPLE_VALUE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "arrow/array_view.h"
#include "arrow/c_data.h"
#include "records/schema/feature.h"
#include "tfos/status.h"

namespace tfos::records {

/// Bytes that a varint takes.
constexpr std::size_t VarintBytes(std::uint64_t value) {
  // One for each seven bits, and one for none.
  const int bits = std::bit_width(value | 1);
  return static_cast<std::size_t>((bits * 9 + 64) / 64);
}

inline std::byte* WriteVarint(std::uint64_t value, std::byte* to) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<std::byte>(value | 0x80);
  *to++ = static_cast<std::byte>(value);
  return to;
}

using arrow::Range;

/// The numbers or strings of an array of Arrow, as what tf.Example has in a list.
///
/// Owner and lifetime: borrows the array. Threads: readable from several.
/// Errors: kBadInput, naming the column, from `Open`, which refuses types that tf.Example has no
/// counterpart of and arrays that are not built as their type wants. The interface does not carry
/// the sizes of buffers, so those are taken on trust.
class ValueSource {
 public:
  static Result<std::unique_ptr<ValueSource>> Open(std::string_view column,
                                                   const ArrowSchema& schema,
                                                   const ArrowArray& array);
  virtual ~ValueSource() = default;

  virtual FeatureKind kind() const = 0;
  /// Bytes of the list with these values: what stands in a BytesList, FloatList or Int64List.
  virtual std::size_t ListBytes(Range values) const = 0;
  /// Writes that list to `to`, and returns what is behind it. `bytes` is what ListBytes said.
  virtual std::byte* WriteList(Range values, std::size_t bytes, std::byte* to) const = 0;

  /// Whether one of the values is null. Positions are counted without the array's offset.
  bool HasNull(Range values) const;
  bool IsNull(std::uint64_t index) const { return HasNull({index, index + 1}); }

 protected:
  explicit ValueSource(const ArrowArray& array);

  std::uint64_t offset_;  ///< Of value 0 in the buffers.

 private:
  const std::uint8_t* validity_;  ///< Null: all are valid.
};

/// How an array of lists lies on its only child.
///
/// Owner and lifetime: borrows the array. Threads: readable from several. Errors: as ValueSource.
class ListSource {
 public:
  static Result<ListSource> Open(std::string_view column, const ArrowSchema& schema,
                                 const ArrowArray& array);

  bool IsNull(std::uint64_t index) const;
  /// The positions in the child.
  Range ValuesOf(std::uint64_t index) const;

 private:
  bool fixed_ = false;  ///< All lists have `length_` values; otherwise `offsets_` say.
  arrow::Offsets offsets_;
  std::uint64_t length_ = 0;
  std::uint64_t offset_ = 0;                ///< Of list 0 in the buffers.
  const std::uint8_t* validity_ = nullptr;  ///< Null: all are valid.
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_EXAMPLE_VALUE_SOURCE_H_
