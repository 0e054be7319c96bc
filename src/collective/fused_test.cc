#include "collective/fused.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "collective/test_members.h"

namespace tfos::collective {
namespace {

template <typename T>
Exchanged Tensor(const std::vector<T>& from, std::vector<T>& to) {
  to.resize(from.size());
  return {.from = std::as_bytes(std::span(from)), .to = std::as_writable_bytes(std::span(to))};
}

TEST(FusedTest, SumsSeveralTensorsAtOnce) {
  RunMembers(MakeMembers(3), [](Group& group) {
    Fused fused(group);
    const auto one = static_cast<float>(group.rank() + 1);
    const std::vector<float> a = {one, 10 * one}, b, c = {100 * one};
    std::vector<float> a_sum, b_sum, c_sum;
    const std::vector<Exchanged> tensors = {Tensor(a, a_sum), Tensor(b, b_sum), Tensor(c, c_sum)};
    ASSERT_TRUE(fused.AllReduce(DType::kFloat32, {}, tensors, "x").ok());
    EXPECT_EQ(a_sum, (std::vector<float>{6, 60}));
    EXPECT_EQ(c_sum, (std::vector<float>{600}));
  });
}

TEST(FusedTest, AveragesByWeight) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    RunMembers(MakeMembers(2), [dtype](Group& group) {
      Fused fused(group);
      const double weight = group.rank() == 0 ? 1 : 3;
      const auto check = [&]<typename T>(T /*type*/) {
        const std::vector<T> mine = {static_cast<T>(group.rank() == 0 ? 8 : 16)};
        std::vector<T> mean;
        const std::vector<Exchanged> tensors = {Tensor(mine, mean)};
        ASSERT_TRUE(fused.AllReduce(dtype, weight, tensors, "x").ok());
        EXPECT_EQ(mean[0], static_cast<T>(14));
      };
      dtype == DType::kFloat32 ? check(float{}) : check(double{});
    });
  }
}

TEST(FusedTest, AMeanIsFiniteWhereTheWeightedSumIsNot) {
  RunMembers(MakeMembers(2), [](Group& group) {
    Fused fused(group);
    const std::vector<float> mine = {3e38F, -2.5F, 1e-30F};
    std::vector<float> mean;
    const std::vector<Exchanged> tensors = {Tensor(mine, mean)};
    const auto weights = fused.AllReduce(DType::kFloat32, 128, tensors, "x");
    ASSERT_TRUE(weights.ok());
    EXPECT_EQ(*weights, 256);
    EXPECT_EQ(mean, mine);
  });
}

TEST(FusedTest, AveragesHalvesWithWeightsBeyondTheirRange) {
  RunMembers(MakeMembers(2), [](Group& group) {
    Fused fused(group);
    const std::vector<std::uint16_t> mine = {static_cast<std::uint16_t>(0x3c00)};  // 1
    std::vector<std::uint16_t> mean;
    const std::vector<Exchanged> tensors = {Tensor(mine, mean)};
    ASSERT_TRUE(fused.AllReduce(DType::kBfloat16, 100'000.0, tensors, "x").ok());
    EXPECT_EQ(mean[0], mine[0]);
  });
}

/// What `count` members make of the same elements, each with a weight of its own, on the wire as
/// float16: as sums, or means by weight.
std::vector<float> ThroughFloat16(Transport transport, std::uint32_t count,
                                  const std::vector<float>& elements, bool is_mean) {
  std::vector<std::vector<float>> results(count);
  RunMembers(MakeMembers(count, transport), [&](Group& group) {
    Fused fused(group);
    std::vector<float> rest;
    const std::vector<float> few = {elements[2]};
    const std::vector<Exchanged> tensors = {Tensor(elements, results[group.rank()]),
                                            Tensor(few, rest)};
    const auto weight = is_mean ? std::optional<double>(group.rank() * 32) : std::nullopt;
    const auto done =
        fused.AllReduce(DType::kFloat32, weight, tensors, "gradients", DType::kFloat16);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
  });
  for (const std::vector<float>& result : results) {
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)), 0);
  }
  return results[0];
}

TEST(FusedTest, NeitherSmallNorLargeElementsAreLostOnTheWay) {
  constexpr std::uint32_t kMembers = 4;
  for (const Transport transport : {Transport::kTcp, Transport::kTwoHosts}) {
    for (const float scale : {1e-30F, 1e-7F, 1e-6F, 1e-3F, 1.0F, 1e6F, 1e30F}) {
      for (const bool is_mean : {false, true}) {
        std::vector<float> elements(20'000);
        for (std::size_t i = 0; i < elements.size(); ++i) {
          elements[i] = scale * (static_cast<float>(i % 1999) - 999) / 1000;
        }
        const std::vector<float> found = ThroughFloat16(transport, kMembers, elements, is_mean);
        double error = 0, all = 0;
        for (std::size_t i = 0; i < elements.size(); ++i) {
          const double exact = static_cast<double>(elements[i]) * (is_mean ? 1 : kMembers);
          error += std::abs(static_cast<double>(found[i]) - exact);
          all += std::abs(exact);
        }
        EXPECT_LT(error / all, 1e-3) << scale << (is_mean ? " as a mean" : " as a sum");
      }
    }
  }
}

TEST(FusedTest, WhatIsNoNumberStaysSoAndSpoilsNoOther) {
  std::vector<float> elements(20'000, 1e-6F);
  elements[0] = std::numeric_limits<float>::infinity();
  elements[1] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> mean = ThroughFloat16(Transport::kTcp, 3, elements, false);
  EXPECT_EQ(mean[0], elements[0]);
  EXPECT_TRUE(std::isnan(mean[1]));
  EXPECT_NEAR(mean[2], 3e-6, 3e-9);
}

TEST(FusedTest, WhoHasNoWeightSpoilsNothing) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    RunMembers(MakeMembers(2), [dtype](Group& group) {
      Fused fused(group);
      const bool has_rows = group.rank() == 0;
      // 300 and NaN; 300 times its weight is beyond float16.
      const std::vector<float> floats = {has_rows ? 300 : std::numeric_limits<float>::quiet_NaN()};
      const std::vector<std::uint16_t> halves = {
          static_cast<std::uint16_t>(has_rows ? 0x5cb0 : 0x7e00)};
      std::vector<float> float_mean;
      std::vector<std::uint16_t> half_mean;
      const std::vector<Exchanged> tensors = {dtype == DType::kFloat32 ? Tensor(floats, float_mean)
                                                                       : Tensor(halves, half_mean)};
      ASSERT_TRUE(fused.AllReduce(dtype, has_rows ? 256 : 0, tensors, "x").ok());
      if (dtype == DType::kFloat32) {
        EXPECT_EQ(float_mean[0], 300);
      } else {
        EXPECT_EQ(half_mean[0], 0x5cb0);
      }
      const double wrong = has_rows ? -1 : std::numeric_limits<double>::quiet_NaN();
      EXPECT_FALSE(fused.AllReduce(dtype, wrong, tensors, "x").ok());
    });
  }
}

TEST(FusedTest, WithoutAnyWeightThereIsNothing) {
  RunMembers(MakeMembers(2), [](Group& group) {
    Fused fused(group);
    const std::vector<float> mine = {5};
    std::vector<float> mean;
    const std::vector<Exchanged> tensors = {Tensor(mine, mean)};
    ASSERT_TRUE(fused.AllReduce(DType::kFloat32, 0.0, tensors, "x").ok());
    EXPECT_EQ(mean[0], 0);
  });
}

TEST(FusedTest, BroadcastsSeveralTensorsAtOnce) {
  RunMembers(MakeMembers(3), [](Group& group) {
    Fused fused(group);
    const std::vector<std::int64_t> a = {group.rank(), 7}, b = {-std::int64_t{group.rank()}};
    std::vector<std::int64_t> a_there, b_there;
    const std::vector<Exchanged> tensors = {Tensor(a, a_there), Tensor(b, b_there)};
    ASSERT_TRUE(fused.Broadcast(2, tensors, "x").ok());
    EXPECT_EQ(a_there, (std::vector<std::int64_t>{2, 7}));
    EXPECT_EQ(b_there, (std::vector<std::int64_t>{-2}));
  });
}

}  // namespace
}  // namespace tfos::collective
