#include "inference/number_conversion.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tensorflow/tf_codes.h"

namespace tfos::inference {
namespace {

using namespace tensorflow;  // NOLINT: its type codes.

/// The bits of a float of 16 bits: `kExponent` of exponent, then the fraction.
template <int kExponent>
struct ShortFloat {
  static constexpr int kFraction = 15 - kExponent;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;

  std::uint16_t bits = 0;

  ShortFloat() = default;
  explicit ShortFloat(float value) : bits(Round(value)) {}
  explicit ShortFloat(double value) : ShortFloat(OddFloat(value)) {}

  explicit operator float() const {
    const auto sign = static_cast<std::uint32_t>(bits >> 15) << 31;
    const int exponent = bits >> kFraction & ((1 << kExponent) - 1);
    const int fraction = bits & ((1 << kFraction) - 1);
    float value = 0;
    if (exponent == (1 << kExponent) - 1) {
      value = std::bit_cast<float>(0x7F800000U | static_cast<std::uint32_t>(fraction)
                                                     << (23 - kFraction));
    } else if (exponent == 0) {
      value = std::ldexp(static_cast<float>(fraction), 1 - kBias - kFraction);
    } else {
      value =
          std::ldexp(static_cast<float>(fraction | 1 << kFraction), exponent - kBias - kFraction);
    }
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }

 private:
  /// The float whose rounding to 16 bits is that of the double: truncated, and odd unless exact.
  static float OddFloat(double value) {
    const auto rounded = static_cast<float>(value);
    if (!std::isfinite(rounded) || static_cast<double>(rounded) == value) return rounded;
    auto bits = std::bit_cast<std::uint32_t>(rounded);
    if (std::fabs(static_cast<double>(rounded)) > std::fabs(value)) --bits;
    return std::bit_cast<float>(bits | 1);
  }

  static std::uint16_t Round(float value) {
    const auto whole = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(whole >> 16 & 0x8000);
    constexpr auto kInfinity = static_cast<std::uint16_t>(((1 << kExponent) - 1) << kFraction);
    if (std::isnan(value)) return sign | kInfinity | 1 << (kFraction - 1);
    const float magnitude = std::fabs(value);
    // Numbers below the smallest normal one are multiples of this.
    const float step = std::ldexp(1.0F, 1 - kBias - kFraction);
    const float smallest = std::ldexp(1.0F, 1 - kBias);
    if (magnitude < smallest) {
      return static_cast<std::uint16_t>(
          sign | static_cast<std::uint16_t>(std::nearbyint(magnitude / step)));
    }
    if (std::isinf(magnitude)) return sign | kInfinity;
    // To the nearest, ties to even; a carry out of the fraction raises the exponent, as it should.
    constexpr int kDropped = 23 - kFraction;
    std::uint32_t bits = whole & 0x7FFFFFFF;
    bits += (1U << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
    const auto moved = static_cast<std::int64_t>(bits >> kDropped) -
                       (static_cast<std::int64_t>(127 - kBias) << kFraction);
    return static_cast<std::uint16_t>(sign | (moved >= kInfinity ? kInfinity : moved));
  }
};

using Half = ShortFloat<5>;
using Bfloat16 = ShortFloat<8>;

template <typename T>
constexpr bool kIsShort = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;

/// Calls `use(T())` for the type that the code means; false for one that is no number here.
template <typename Use>
bool WithType(int dtype, Use&& use) {
  switch (dtype) {
    case kTfInt8:
      use(std::int8_t());
      return true;
    case kTfInt16:
      use(std::int16_t());
      return true;
    case kTfInt32:
      use(std::int32_t());
      return true;
    case kTfInt64:
      use(std::int64_t());
      return true;
    case kTfUint8:
      use(std::uint8_t());
      return true;
    case kTfUint16:
      use(std::uint16_t());
      return true;
    case kTfUint32:
      use(std::uint32_t());
      return true;
    case kTfUint64:
      use(std::uint64_t());
      return true;
    case kTfFloat:
      use(float());
      return true;
    case kTfDouble:
      use(double());
      return true;
    case kTfHalf:
      use(Half());
      return true;
    case kTfBfloat16:
      use(Bfloat16());
      return true;
    default:
      return false;
  }
}

bool IsInteger(int dtype) {
  bool integer = false;
  WithType(dtype, [&](auto value) { integer = std::is_integral_v<decltype(value)>; });
  return integer;
}

bool IsNumber(int dtype) {
  return WithType(dtype, [](auto) {});
}

template <typename From, typename To>
To Converted(From value) {
  if constexpr (kIsShort<From>) {
    return static_cast<To>(static_cast<float>(value));
  } else if constexpr (kIsShort<To> && std::is_integral_v<From>) {
    return To(static_cast<double>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
std::optional<std::size_t> ConvertAll(std::span<const std::byte> numbers, std::byte* out) {
  const std::size_t count = numbers.size() / sizeof(From);
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, numbers.data() + i * sizeof value, sizeof value);
    if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
      if (!std::in_range<To>(value)) return i;
    }
    const To converted = Converted<From, To>(value);
    std::memcpy(out + i * sizeof converted, &converted, sizeof converted);
  }
  return std::nullopt;
}

}  // namespace

bool CanConvert(int from, int to) {
  if (from == to) return IsNumber(from) || from == kTfBool;
  return IsNumber(from) && IsNumber(to) && (IsInteger(from) || !IsInteger(to));
}

std::optional<std::size_t> ConvertNumbers(int from, std::span<const std::byte> numbers, int to,
                                          std::byte* out) {
  if (from == to) {
    if (!numbers.empty()) std::memcpy(out, numbers.data(), numbers.size());
    return std::nullopt;
  }
  std::optional<std::size_t> failed;
  WithType(from, [&](auto source) {
    WithType(to, [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      if constexpr (std::is_integral_v<From> || !std::is_integral_v<To>) {
        failed = ConvertAll<From, To>(numbers, out);
      }
    });
  });
  return failed;
}

}  // namespace tfos::inference
