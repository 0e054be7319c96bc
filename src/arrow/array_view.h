#ifndef TFOS_ARROW_ARRAY_VIEW_H_
#define TFOS_ARROW_ARRAY_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "arrow/c_data.h"
#include "base/memory/unaligned.h"
#include "tfos/status.h"

// What every reader of another library's arrays needs: their type, their bits and their offsets.
//
// Owner and lifetime: everything borrows the array. Threads: readable from several.
// Errors: kBadInput, which says what is wrong and not in which column. The interface does not carry
// the sizes of buffers, so those are taken on trust.
// Units: elements.

namespace tfos::arrow {

/// Arrays are far below this, so that sums and products of a few lengths cannot overflow.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

/// Positions in an array or in its buffers.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
  Range Shifted(std::int64_t by) const {
    return {begin + static_cast<std::uint64_t>(by), end + static_cast<std::uint64_t>(by)};
  }
};

/// Arrow's text for a type; empty when there is none.
inline std::string_view FormatOf(const ArrowSchema& schema) {
  return schema.format == nullptr ? std::string_view() : std::string_view(schema.format);
}

/// The number after `prefix`, to the end of `format`; none if there is another text.
std::optional<std::int32_t> NumberAfter(std::string_view format, std::string_view prefix);

/// Whether `format` is a type of lists, of whatever length.
bool IsList(std::string_view format);

/// Whether a type has just one child, and that is of the type `format`.
bool IsOneOf(const ArrowSchema& schema, std::string_view format);

/// Checks that an array is built as its type wants: that many buffers and children, and at least
/// `elements` elements.
Status CheckArray(const ArrowSchema& schema, const ArrowArray& array, std::int64_t buffers,
                  std::int64_t children, std::int64_t elements = 0);

inline bool Bit(const void* bits, std::uint64_t position) {
  return (static_cast<const std::uint8_t*>(bits)[position / 8] >> (position % 8) & 1) != 0;
}

/// The bits that say which elements are valid; null when all are.
inline const std::uint8_t* ValidityOf(const ArrowArray& array) {
  return array.null_count == 0 ? nullptr : static_cast<const std::uint8_t*>(array.buffers[0]);
}

/// The position of the first null in `range` of `validity`, if there is one.
inline std::optional<std::uint64_t> FindNull(const std::uint8_t* validity, Range range) {
  if (validity == nullptr) return std::nullopt;
  for (std::uint64_t i = range.begin; i < range.end;) {
    if (i % 8 == 0 && range.end - i >= 8 && validity[i / 8] == 0xFF) {
      i += 8;
    } else if (!Bit(validity, i)) {
      return i;
    } else {
      ++i;
    }
  }
  return std::nullopt;
}

/// As above. `range` includes the array's offset.
inline std::optional<std::uint64_t> FindNull(const ArrowArray& array, Range range) {
  return FindNull(ValidityOf(array), range);
}

/// Where the elements of a range of lists lie, and whether all lists have one length.
struct Extent {
  Range range;
  bool same_length = true;
  std::uint64_t length = 0;
};

/// The offsets of lists and strings: value i is what lies between offset i and i + 1. The positions
/// of values include the array's offset.
class Offsets {
 public:
  Offsets() = default;
  /// `wide`: of 64 bits instead of 32.
  Offsets(const ArrowArray& array, bool wide)
      : data_(static_cast<const std::byte*>(array.buffers[1])), wide_(wide) {}

  std::uint64_t operator[](std::uint64_t index) const {
    return static_cast<std::uint64_t>(
        wide_ ? Load<std::int64_t>(data_ + index * sizeof(std::int64_t))
              : std::int64_t{Load<std::int32_t>(data_ + index * sizeof(std::int32_t))});
  }

  /// Checks the offsets of the values in `range`: none is negative or less than the one before, and
  /// none exceeds `limit`.
  Result<Extent> Check(Range range, std::int64_t limit) const;

  /// Calls set(i, boundary) for the boundaries 1, 2, ... of the values in `range`.
  template <typename Set>
  void ForEachBoundary(Range range, Set set) const {
    const std::uint64_t first = (*this)[range.begin];
    for (std::uint64_t i = 1; i <= range.size(); ++i) set(i, (*this)[range.begin + i] - first);
  }

 private:
  const std::byte* data_ = nullptr;
  bool wide_ = false;
};

}  // namespace tfos::arrow

#endif  // TFOS_ARROW_ARRAY_VIEW_H_
