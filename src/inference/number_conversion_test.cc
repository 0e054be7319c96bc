#include "inference/number_conversion.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "tensorflow/tf_codes.h"

namespace tfos::inference {
namespace {

using namespace tensorflow;  // NOLINT: its type codes.

template <typename To, typename From>
std::vector<To> Convert(int from, const std::vector<From>& numbers, int to,
                        std::optional<std::size_t> failed = std::nullopt) {
  std::vector<To> out(numbers.size());
  EXPECT_EQ(ConvertNumbers(from, std::as_bytes(std::span(numbers)), to,
                           reinterpret_cast<std::byte*>(out.data())),
            failed);
  return out;
}

TEST(NumberConversion, SaysWhatItDoes) {
  EXPECT_TRUE(CanConvert(kTfDouble, kTfFloat));
  EXPECT_TRUE(CanConvert(kTfInt64, kTfInt32));
  EXPECT_TRUE(CanConvert(kTfUint8, kTfBfloat16));
  EXPECT_TRUE(CanConvert(kTfBool, kTfBool));
  EXPECT_FALSE(CanConvert(kTfBool, kTfFloat));
  EXPECT_FALSE(CanConvert(kTfFloat, kTfInt64));
  EXPECT_FALSE(CanConvert(kTfInt64, kTfBool));
  EXPECT_FALSE(CanConvert(kTfFloat, kTfComplex64));
  EXPECT_FALSE(CanConvert(kTfString, kTfString));
}

TEST(NumberConversion, ChecksTheRangeOfIntegers) {
  EXPECT_EQ((Convert<std::int32_t>(kTfInt64, std::vector<std::int64_t>{-1, 1 << 30}, kTfInt32)),
            (std::vector<std::int32_t>{-1, 1 << 30}));
  Convert<std::int32_t>(kTfInt64, std::vector<std::int64_t>{1, std::int64_t{1} << 31}, kTfInt32, 1);
  Convert<std::uint8_t>(kTfInt8, std::vector<std::int8_t>{-1}, kTfUint8, 0);
  Convert<std::int64_t>(kTfUint64, std::vector<std::uint64_t>{~std::uint64_t{0}}, kTfInt64, 0);
}

TEST(NumberConversion, ConvertsNothingThatItRefuses) {
  Convert<std::int64_t>(kTfDouble, std::vector<double>{1, 2}, kTfInt64, 0);
  Convert<std::int32_t>(kTfBool, std::vector<std::uint8_t>{1}, kTfInt32, 0);
}

TEST(NumberConversion, RoundsFloats) {
  EXPECT_EQ((Convert<float>(kTfDouble, std::vector<double>{0.1, 1e300}, kTfFloat)),
            (std::vector<float>{0.1F, std::numeric_limits<float>::infinity()}));
  EXPECT_EQ((Convert<float>(kTfInt32, std::vector<std::int32_t>{3}, kTfFloat)),
            (std::vector<float>{3}));
}

// Every half is a float, and comes back as it was.
TEST(NumberConversion, HalvesComeBack) {
  for (const int type : {kTfHalf, kTfBfloat16}) {
    std::vector<std::uint16_t> all(65'536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    const auto floats = Convert<float>(type, all, kTfFloat);
    const auto back = Convert<std::uint16_t>(kTfFloat, floats, type);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(floats[i])) continue;
      ASSERT_EQ(back[i], all[i]) << type << " " << floats[i];
    }
  }
}

TEST(NumberConversion, HalvesOfOthers) {
  const auto halves = Convert<std::uint16_t>(
      kTfFloat,
      std::vector<float>{1, -2, 65504, 65520, 1e-8F, 6e-8F, 1 + 1.0F / 2048, 1 + 3.0F / 2048,
                         std::numeric_limits<float>::infinity()},
      kTfHalf);
  EXPECT_EQ(halves, (std::vector<std::uint16_t>{0x3C00, 0xC000, 0x7BFF, 0x7C00, 0, 1, 0x3C00,
                                                0x3C02, 0x7C00}));
  EXPECT_EQ((Convert<std::uint16_t>(kTfFloat, std::vector<float>{1, 3.3895314e38F}, kTfBfloat16)),
            (std::vector<std::uint16_t>{0x3F80, 0x7F7F}));
  // A double just above the middle of two halves, which as a float would be the middle itself.
  EXPECT_EQ(
      (Convert<std::uint16_t>(kTfDouble, std::vector<double>{1 + 1.0 / 2048 + 1e-12}, kTfHalf)),
      (std::vector<std::uint16_t>{0x3C01}));
  EXPECT_TRUE(std::isnan(Convert<float>(
      kTfHalf, Convert<std::uint16_t>(kTfFloat, std::vector<float>{NAN}, kTfHalf), kTfFloat)[0]));
}

}  // namespace
}  // namespace tfos::inference
