#ifndef TFOS_BASE_MEMORY_HALF_H_
#define TFOS_BASE_MEMORY_HALF_H_

#include <bit>
#include <cmath>
#include <cstdint>

// The two floating-point types of 16 bits. Conversions round to nearest even.

namespace tfos {

/// IEEE 754-2008 binary16.
struct Float16 {
  std::uint16_t bits;

  float ToFloat() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t rest = bits & 0x7fffU;
    if (rest >= 0x7c00U) {  // Infinite, or not a number.
      return std::bit_cast<float>(sign | 0x7f800000U | (rest & 0x3ffU) << 13);
    }
    if (rest < 0x400U) {  // Subnormal: a multiple of 2^-24.
      return std::bit_cast<float>(
          std::bit_cast<std::uint32_t>(static_cast<float>(rest) * 0x1p-24F) | sign);
    }
    return std::bit_cast<float>(sign | ((rest << 13) + ((127U - 15U) << 23)));
  }

  static Float16 FromFloat(float value) {
    const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(all >> 16 & 0x8000U);
    const float magnitude = std::fabs(value);
    if (std::isnan(value)) return {static_cast<std::uint16_t>(sign | 0x7e00U)};
    // Halfway between the largest one and the next that there would be.
    if (magnitude >= 65520.0F) return {static_cast<std::uint16_t>(sign | 0x7c00U)};
    if (magnitude < 0x1p-14F) {
      // The addition rounds to a multiple of 2^-24, which the sum's last bits then count.
      const std::uint32_t sum = std::bit_cast<std::uint32_t>(magnitude + 0.5F);
      return {static_cast<std::uint16_t>(sign | (sum - std::bit_cast<std::uint32_t>(0.5F)))};
    }
    const std::uint32_t rest = all & 0x7fffffffU;
    const std::uint32_t rounded = rest + 0xfffU + (rest >> 13 & 1U);
    return {static_cast<std::uint16_t>(sign | ((rounded - ((127U - 15U) << 23)) >> 13))};
  }
};

/// The upper half of a float32.
struct Bfloat16 {
  std::uint16_t bits;

  float ToFloat() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

  static Bfloat16 FromFloat(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return {static_cast<std::uint16_t>(all >> 16 | 0x40U)};
    return {static_cast<std::uint16_t>((all + 0x7fffU + (all >> 16 & 1U)) >> 16)};
  }
};

}  // namespace tfos

#endif  // TFOS_BASE_MEMORY_HALF_H_
