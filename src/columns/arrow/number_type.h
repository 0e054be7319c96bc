#ifndef TFOS_COLUMNS_ARROW_NUMBER_TYPE_H_
#define TFOS_COLUMNS_ARROW_NUMBER_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "chunk/chunk.h"

namespace tfos::columns {

/// How a type of numbers is laid out in Arrow, and what a chunk holds instead.
struct NumberType {
  enum class Layout { kSame, kBits, kDecimal128 };

  chunk::DType dtype = chunk::DType::kNone;
  Layout layout = Layout::kSame;
  int scale = 0;  ///< kDecimal128 only.
};

/// What becomes of decimals, for which a chunk has no type.
enum class Decimals {
  kRefuse,
  kFloat64,  ///< The nearest float64.
};

/// The type with Arrow's text `format`; none unless it is one of numbers that chunks have.
std::optional<NumberType> ParseNumberType(std::string_view format);

/// Arrow's text for numbers of `dtype`; null for those that it does not have.
const char* ArrowFormat(chunk::DType dtype);

/// Writes the float64 nearest to each of `count` decimals of 128 bits, which lie one behind the
/// other at `from`, to `to`. They are integers that stand for themselves / 10^scale.
void DecimalsToDoubles(const std::byte* from, std::uint64_t count, int scale, std::byte* to);

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_ARROW_NUMBER_TYPE_H_
