#include "columns/arrow/number_type.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>

#include "arrow/array_view.h"
#include "base/format.h"
#include "base/memory/unaligned.h"

namespace tfos::columns {
namespace {

using Int128 = __int128;

constexpr int kMaxDecimalScale = 38;

// A float64 holds these exactly.
constexpr std::int64_t kExactIntegers = std::int64_t{1} << 53;
constexpr std::array kExactPowers = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/// The float64 nearest to value / 10^scale.
double DecimalToDouble(Int128 value, int scale) {
  if (value >= -kExactIntegers && value <= kExactIntegers &&
      static_cast<std::size_t>(scale) < kExactPowers.size()) {
    // Both are exact, so that the division rounds once.
    return static_cast<double>(static_cast<std::int64_t>(value)) /
           kExactPowers[static_cast<std::size_t>(scale)];
  }
  const bool negative = value < 0;
  auto left = static_cast<unsigned __int128>(value);
  if (negative) left = 0 - left;
  std::string digits;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(left % 10)));
    left /= 10;
  } while (left != 0);
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  digits += fmt::format("e-{}", scale);
  double result = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), result);
  return result;
}

struct SameInBoth {
  const char* format;
  chunk::DType dtype;
};

/// Arrow's types that a chunk holds as they are.
constexpr SameInBoth kSameInBoth[] = {
    {"c", chunk::DType::kInt8},    {"C", chunk::DType::kUint8},   {"s", chunk::DType::kInt16},
    {"S", chunk::DType::kUint16},  {"i", chunk::DType::kInt32},   {"I", chunk::DType::kUint32},
    {"l", chunk::DType::kInt64},   {"L", chunk::DType::kUint64},  {"e", chunk::DType::kFloat16},
    {"f", chunk::DType::kFloat32}, {"g", chunk::DType::kFloat64},
};
constexpr const char* kBits = "b";

/// "d:precision,scale", perhaps with ",128" behind it.
std::optional<NumberType> ParseDecimal(std::string_view format) {
  if (!format.starts_with("d:")) return std::nullopt;
  if (format.ends_with(",128")) format.remove_suffix(4);
  const std::size_t comma = format.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const auto scale = arrow::NumberAfter(format.substr(comma), ",");
  if (!scale || *scale > kMaxDecimalScale) return std::nullopt;
  return NumberType{chunk::DType::kFloat64, NumberType::Layout::kDecimal128, *scale};
}

}  // namespace

std::optional<NumberType> ParseNumberType(std::string_view format) {
  for (const SameInBoth& same : kSameInBoth) {
    if (format == same.format) return NumberType{same.dtype};
  }
  if (format == kBits) return NumberType{chunk::DType::kBool, NumberType::Layout::kBits};
  if (format == "tdD") return NumberType{chunk::DType::kInt32};  // Days since 1970.
  // Microseconds, in whatever time zone they are to be shown.
  if (format.starts_with("tsu:")) return NumberType{chunk::DType::kInt64};
  return ParseDecimal(format);
}

const char* ArrowFormat(chunk::DType dtype) {
  for (const SameInBoth& same : kSameInBoth) {
    if (dtype == same.dtype) return same.format;
  }
  return dtype == chunk::DType::kBool ? kBits : nullptr;
}

void DecimalsToDoubles(const std::byte* from, std::uint64_t count, int scale, std::byte* to) {
  for (std::uint64_t i = 0; i < count; ++i) {
    Store(DecimalToDouble(Load<Int128>(from + i * sizeof(Int128)), scale), to + i * sizeof(double));
  }
}

}  // namespace tfos::columns
