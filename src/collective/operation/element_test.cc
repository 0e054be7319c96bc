#include "collective/operation/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tfos::collective {
namespace {

template <typename T>
std::span<std::byte> Bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

template <typename T>
void CheckSum(DType dtype, std::vector<T> a, std::vector<T> b, const std::vector<T>& sum) {
  AddElements(dtype, Bytes(b), Bytes(a));
  EXPECT_EQ(a, sum);
}

TEST(ElementTest, AddsEveryType) {
  CheckSum<float>(DType::kFloat32, {1.5F, -2, 1e30F}, {0.25F, 2, 1e30F}, {1.75F, 0, 2e30F});
  CheckSum<double>(DType::kFloat64, {1e-300, 1}, {1e-300, 2}, {2e-300, 3});
  CheckSum<std::int32_t>(DType::kInt32, {-5, std::numeric_limits<std::int32_t>::max()}, {3, 1},
                         {-2, std::numeric_limits<std::int32_t>::min()});
  CheckSum<std::int64_t>(DType::kInt64, {std::int64_t{1} << 40}, {5},
                         {(std::int64_t{1} << 40) + 5});
}

TEST(ElementTest, AddsManyAtAnyAlignment) {
  std::vector<float> a(1003), b(1003);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i) * 0.1F;
    b[i] = static_cast<float>(i) * -0.3F;
  }
  std::vector<std::byte> shifted(a.size() * sizeof(float) + 1);
  std::memcpy(shifted.data() + 1, a.data(), shifted.size() - 1);
  AddElements(DType::kFloat32, Bytes(b), std::span(shifted).subspan(1));
  for (std::size_t i = 0; i < a.size(); ++i) {
    float sum = 0;
    std::memcpy(&sum, shifted.data() + 1 + i * sizeof(float), sizeof(sum));
    EXPECT_EQ(sum, a[i] + b[i]);
  }
}

/// A float16 or bfloat16 through a sum with zero: the same number, rounded as the type has it.
std::uint16_t Rounded(DType dtype, std::uint16_t bits) {
  std::vector<std::uint16_t> value = {bits}, zero = {0};
  AddElements(dtype, Bytes(zero), Bytes(value));
  return value[0];
}

TEST(ElementTest, EveryFloat16StaysWhatItIs) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool is_nan = (half & 0x7fffU) > 0x7c00U;
    const std::uint16_t rounded = Rounded(DType::kFloat16, half);
    if (is_nan) {
      EXPECT_GT(rounded & 0x7fffU, 0x7c00U);
    } else {
      EXPECT_EQ(rounded, half == 0x8000U ? 0 : half) << bits;  // -0 + 0 is 0.
    }
  }
}

TEST(ElementTest, EveryBfloat16StaysWhatItIs) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool is_nan = (half & 0x7fffU) > 0x7f80U;
    const std::uint16_t rounded = Rounded(DType::kBfloat16, half);
    if (is_nan) {
      EXPECT_GT(rounded & 0x7fffU, 0x7f80U);
    } else {
      EXPECT_EQ(rounded, half == 0x8000U ? 0 : half) << bits;
    }
  }
}

TEST(ElementTest, RoundsHalvesToEven) {
  // 1 + 2^-11 lies between 1 and the next float16, 1 + 3 * 2^-11 between the next two.
  CheckSum<std::uint16_t>(DType::kFloat16, {0x3c00, 0x3c01, 0x7bff, 0x0001},
                          {0x1000, 0x1000, 0x7bff, 0x0001}, {0x3c00, 0x3c02, 0x7c00, 0x0002});
  CheckSum<std::uint16_t>(DType::kBfloat16, {0x3f80, 0x3f81}, {0x3b80, 0x3b80}, {0x3f80, 0x3f82});
}

TEST(ElementTest, Scales) {
  std::vector<float> floats = {1, -3, 10};
  ScaleElements(DType::kFloat32, 0.5, Bytes(floats), Bytes(floats));
  EXPECT_EQ(floats, (std::vector<float>{0.5F, -1.5F, 5}));
  std::vector<std::int64_t> integers = {7, -7};
  ScaleElements(DType::kInt64, 0.5, Bytes(integers), Bytes(integers));
  EXPECT_EQ(integers, (std::vector<std::int64_t>{3, -3}));
  std::vector<std::uint16_t> halves = {0x3c00};  // 1
  ScaleElements(DType::kFloat16, 2, Bytes(halves), Bytes(halves));
  EXPECT_EQ(halves[0], 0x4000);
}

TEST(ElementTest, TheLargestMagnitudeIsOfNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> floats(100, 0.5F);
  floats[7] = -3;
  floats[98] = kInfinity;
  floats[99] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(LargestMagnitude(Bytes(floats)), 3);
  floats.assign(3, -kInfinity);
  EXPECT_EQ(LargestMagnitude(Bytes(floats)), 0);
  EXPECT_EQ(LargestMagnitude({}), 0);
}

TEST(ElementTest, NamesEveryType) {
  for (int number = 1; number <= 7; ++number) {
    EXPECT_GT(ElementBytes(static_cast<DType>(number)), 0u);
    EXPECT_NE(DTypeName(static_cast<DType>(number)), "an unknown type");
  }
  EXPECT_EQ(ElementBytes(static_cast<DType>(8)), 0u);
}

TEST(ElementTest, NarrowAndWideAreAsSumsHaveThem) {
  // The sum with zero of a narrow type is what its conversions must give, value by value.
  for (const DType narrow : {DType::kFloat16, DType::kBfloat16}) {
    std::vector<std::uint16_t> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    // One more at the end: vectors have a remainder.
    all.push_back(0x3c01);
    std::vector<float> wide(all.size());
    WidenElements(narrow, std::as_bytes(std::span(all)), std::as_writable_bytes(std::span(wide)));
    std::vector<std::uint16_t> back(all.size());
    NarrowElements(narrow, std::as_bytes(std::span(wide)), std::as_writable_bytes(std::span(back)));
    std::vector<float> doubled = wide;
    AddNarrowElements(narrow, std::as_bytes(std::span(all)),
                      std::as_writable_bytes(std::span(doubled)));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(wide[i])) {
        ASSERT_TRUE(std::isnan(doubled[i])) << i;
        continue;
      }
      ASSERT_EQ(back[i], all[i]) << i;
      ASSERT_EQ(doubled[i], wide[i] + wide[i]) << i;
    }
  }
}

TEST(ElementTest, NarrowingRoundsToNearestEven) {
  const std::vector<float> values = {
      1.0F + 0x1p-8F, 1.0F + 0x1.8p-7F, 1.0F + 0x1p-11F, 1.0F + 0x1.8p-10F, 1e30F,
      -0.0F,          0x1p-25F,         0x1.8p-24F,      INFINITY};
  std::vector<std::uint16_t> narrow(values.size());
  const auto bits = [&](DType type) {
    NarrowElements(type, std::as_bytes(std::span(values)),
                   std::as_writable_bytes(std::span(narrow)));
    return narrow;
  };
  EXPECT_EQ(bits(DType::kBfloat16)[0], 0x3f80);  // A tie, down to even.
  EXPECT_EQ(bits(DType::kBfloat16)[1], 0x3f82);  // A tie, up to even.
  const std::vector<std::uint16_t> half = bits(DType::kFloat16);
  EXPECT_EQ(half[2], 0x3c00);
  EXPECT_EQ(half[3], 0x3c02);
  EXPECT_EQ(half[4], 0x7c00);
  EXPECT_EQ(half[5], 0x8000);
  EXPECT_EQ(half[6], 0x0000);
  EXPECT_EQ(half[7], 0x0002);
  EXPECT_EQ(half[8], 0x7c00);
}

}  // namespace
}  // namespace tfos::collective
