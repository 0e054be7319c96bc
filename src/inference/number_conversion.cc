#include "inference/number_conversion.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/memory/half.h"
#include "base/memory/unaligned.h"
#include "tensorflow/tf_codes.h"

namespace tfos::inference {
namespace {

using namespace tensorflow;  // NOLINT: its type codes.

/// The float whose rounding to 16 bits is that of the double: truncated, and odd unless exact.
float OddFloat(double value) {
  const auto rounded = static_cast<float>(value);
  if (!std::isfinite(rounded) || static_cast<double>(rounded) == value) return rounded;
  auto bits = std::bit_cast<std::uint32_t>(rounded);
  if (std::fabs(static_cast<double>(rounded)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

template <typename T>
constexpr bool kIsShort = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

/// Calls `use(T())` for the type that the code means; false for one that isn't a number here.
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
      use(Float16());
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
    return Converted<float, To>(value.ToFloat());
  } else if constexpr (kIsShort<To> && std::is_same_v<From, float>) {
    return To::FromFloat(value);
  } else if constexpr (kIsShort<To>) {
    return To::FromFloat(OddFloat(static_cast<double>(value)));
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
std::optional<std::size_t> ConvertAll(std::span<const std::byte> numbers, std::byte* out) {
  const std::size_t count = numbers.size() / sizeof(From);
  for (std::size_t i = 0; i < count; ++i) {
    const From value = Load<From>(numbers.data() + i * sizeof(From));
    if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
      if (!std::in_range<To>(value)) return i;
    }
    Store(Converted<From, To>(value), out + i * sizeof(To));
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
  std::optional<std::size_t> failed = 0;  // Where nothing below converts.
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
