#include "collective/fused.h"

#include <gtest/gtest.h>

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
