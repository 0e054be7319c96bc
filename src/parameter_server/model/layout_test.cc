#include "parameter_server/model/layout.h"

#include <gtest/gtest.h>

namespace tfos::parameter_server {
namespace {

Layout Make(std::vector<Variable> variables) {
  auto layout = Layout::Of(std::move(variables));
  EXPECT_TRUE(layout.ok()) << layout.status().ToString();
  return std::move(layout).value();
}

TEST(LayoutTest, TypesAreThoseThatCanBeAddedUp) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64,
                            DType::kFloat16, DType::kBfloat16}) {
    EXPECT_EQ(VariableTypeFrom(collective::DTypeName(dtype)).value(), dtype);
  }
  for (const std::string_view name : {"uint8", "", "an unknown type", "bytes"}) {
    EXPECT_EQ(VariableTypeFrom(name).status().kind(), ErrorKind::kBadInput) << name;
  }
}

TEST(LayoutTest, VariablesBeginAtMultiplesOf64) {
  const Layout layout = Make({{DType::kFloat32, 3}, {DType::kFloat64, 0}, {DType::kInt64, 9}});
  EXPECT_EQ(layout.place(0).begin, 0U);
  EXPECT_EQ(layout.place(0).bytes, 12U);
  EXPECT_EQ(layout.place(1).begin, 64U);
  EXPECT_EQ(layout.place(2).begin, 64U);
  EXPECT_EQ(layout.place(2).bytes, 72U);
  EXPECT_EQ(layout.bytes(), 192U);
}

TEST(LayoutTest, BigVariablesAreCutAndSmallOnesAreNot) {
  const Layout big = Make({{DType::kFloat32, 1'000'000}, {DType::kFloat32, 10}});
  const auto cuts = big.Cut(4);
  ASSERT_EQ(cuts.size(), 5U);
  EXPECT_EQ(cuts.front(), 0U);
  EXPECT_EQ(cuts.back(), big.bytes());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    EXPECT_EQ(cuts[i] % kAlignment, 0U);
    EXPECT_NEAR(static_cast<double>(cuts[i + 1] - cuts[i]), 1e6, 1000);
  }
  const Layout small = Make({{DType::kFloat32, 784 * 10}, {DType::kFloat32, 10}});
  for (const std::uint64_t cut : small.Cut(2)) {
    EXPECT_TRUE(cut == 0 || cut == small.place(1).begin || cut == small.bytes()) << cut;
  }
}

TEST(LayoutTest, SharesAreTheVariablesOfAllInTheirOrder) {
  const Layout layout = Make({{DType::kFloat32, 100'000},
                              {DType::kInt32, 7},
                              {DType::kFloat64, 200'000},
                              {DType::kFloat16, 33}});
  for (const std::size_t servers : {1U, 2U, 3U, 7U}) {
    const auto cuts = layout.Cut(servers);
    std::vector<std::uint64_t> elements(4);
    for (std::size_t i = 0; i < servers; ++i) {
      const auto share = layout.ShareOf(cuts[i], cuts[i + 1]);
      if (share.empty()) continue;
      EXPECT_EQ(Make(share).bytes(), cuts[i + 1] - cuts[i]);
      const auto parts = layout.PartsOf(cuts[i], cuts[i + 1]);
      ASSERT_EQ(parts.size(), share.size());
      for (std::size_t p = 0; p < parts.size(); ++p) {
        EXPECT_EQ(parts[p].dtype, share[p].dtype);
        EXPECT_EQ(parts[p].begin - cuts[i], Make(share).place(p).begin);
        elements[parts[p].variable] += share[p].elements;
      }
    }
    EXPECT_EQ(elements, (std::vector<std::uint64_t>{100'000, 7, 200'000, 33}));
  }
}

TEST(LayoutTest, WhatCannotBeIsRefused) {
  EXPECT_FALSE(Layout::Of({}).ok());
  EXPECT_EQ(Layout::Of({{DType::kFloat32, 1}, {DType::kBytes, 1}}).status().ToString(),
            "variable 1 is of type bytes: parameter servers take numbers that can be added up");
  EXPECT_FALSE(Layout::Of({{static_cast<DType>(99), 1}}).ok());
  EXPECT_FALSE(Layout::Of({{DType::kFloat64, kMostBytes}}).ok());
  EXPECT_FALSE(
      Layout::Of({{DType::kFloat64, kMostBytes / 16}, {DType::kFloat64, kMostBytes / 8}}).ok());
}

}  // namespace
}  // namespace tfos::parameter_server
