#include "arrow/array_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace tfos::arrow {
namespace {

using testing::HasSubstr;

template <typename T>
ArrowArray ArrayOf(std::vector<const void*>& buffers, const std::vector<T>& offsets) {
  buffers = {nullptr, offsets.data()};
  ArrowArray array{};
  array.length = static_cast<std::int64_t>(offsets.size()) - 1;
  array.n_buffers = 2;
  array.buffers = buffers.data();
  return array;
}

TEST(ArrayViewTest, ReadsANumberOnlyWhereNothingElseStands) {
  EXPECT_EQ(NumberAfter("+w:12", "+w:"), 12);
  for (const char* const format : {"+w:", "+w:-1", "+w:1,", "+w: 1", "w:12", "+w:2147483648"}) {
    EXPECT_EQ(NumberAfter(format, "+w:"), std::nullopt) << format;
  }
}

TEST(ArrayViewTest, FindsTheFirstNullFromAnyBitToAnyOther) {
  constexpr std::uint64_t kBits = 40;
  for (std::uint64_t null = 0; null < kBits; ++null) {
    std::vector<std::uint8_t> validity(kBits / 8, 0xFF);
    validity[null / 8] = static_cast<std::uint8_t>(~(1U << null % 8));
    for (std::uint64_t begin = 0; begin <= kBits; ++begin) {
      for (std::uint64_t end = begin; end <= kBits; ++end) {
        const bool within = begin <= null && null < end;
        EXPECT_EQ(FindNull(validity.data(), {begin, end}),
                  within ? std::optional(null) : std::nullopt);
      }
    }
  }
  EXPECT_EQ(FindNull(nullptr, {0, kBits}), std::nullopt);
}

template <typename T>
void ExpectOffsetsChecked(bool wide) {
  std::vector<const void*> buffers;
  const std::vector<T> even = {1, 3, 5, 7};
  const Offsets offsets(ArrayOf(buffers, even), wide);
  const Result<Extent> extent = offsets.Check({0, 3}, 7);
  ASSERT_TRUE(extent.ok()) << extent.status().ToString();
  EXPECT_EQ(extent->range.begin, 1);
  EXPECT_EQ(extent->range.end, 7);
  EXPECT_TRUE(extent->same_length);
  EXPECT_EQ(extent->length, 2);
  EXPECT_THAT(offsets.Check({0, 3}, 6).status().message(), HasSubstr("where 6 elements are"));

  const std::vector<T> uneven = {0, 2, 3};
  EXPECT_FALSE(Offsets(ArrayOf(buffers, uneven), wide).Check({0, 2}, 3)->same_length);
  const std::vector<T> falling = {0, 2, 1};
  EXPECT_THAT(Offsets(ArrayOf(buffers, falling), wide).Check({0, 2}, 3).status().message(),
              HasSubstr("offset 2 falls"));
  const std::vector<T> negative = {std::numeric_limits<T>::min(), 0};
  EXPECT_THAT(Offsets(ArrayOf(buffers, negative), wide).Check({0, 1}, 3).status().message(),
              HasSubstr("offset 0 is negative"));
  EXPECT_TRUE(Offsets().Check({0, 0}, 0).ok()) << "no values, and so perhaps no buffer";
}

TEST(ArrayViewTest, ChecksOffsetsOf32Bits) { ExpectOffsetsChecked<std::int32_t>(false); }

TEST(ArrayViewTest, ChecksOffsetsOf64Bits) { ExpectOffsetsChecked<std::int64_t>(true); }

}  // namespace
}  // namespace tfos::arrow
