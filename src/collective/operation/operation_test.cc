#include "collective/operation/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/format.h"

namespace tfos::collective {
namespace {

Operation Example() {
  return {.number = 7,
          .kind = OperationKind::kBroadcast,
          .dtype = DType::kFloat32,
          .root = 2,
          .elements = 100,
          .name = "weights"};
}

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(OperationTest, ComesBackAsItWas) {
  const std::string body = Example().Encode();
  const auto parsed = Operation::Parse(Bytes(body));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, Example());
  EXPECT_EQ(parsed->Describe(),
            "broadcast \"weights\" from member 2 of float32[100] (operation 7)");
}

TEST(OperationTest, WhatTravelsIsPartOfIt) {
  Operation operation{.number = 1,
                      .kind = OperationKind::kAllReduce,
                      .dtype = DType::kFloat32,
                      .wire = DType::kBfloat16,
                      .elements = 5,
                      .name = "x"};
  const auto parsed = Operation::Parse(Bytes(operation.Encode()));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, operation);
  EXPECT_EQ(parsed->Describe(), "all_reduce \"x\" of float32[5] sent as bfloat16 (operation 1)");
  // Only float32 is made narrower, and only by these two.
  operation.wire = DType::kInt32;
  EXPECT_FALSE(Operation::Parse(Bytes(operation.Encode())).ok());
  operation.wire = DType::kFloat16;
  operation.dtype = DType::kFloat64;
  EXPECT_FALSE(Operation::Parse(Bytes(operation.Encode())).ok());
}

TEST(OperationTest, EveryFlippedBitIsNoticedOrAnotherOperation) {
  const std::string body = Example().Encode();
  for (std::size_t bit = 0; bit < body.size() * 8; ++bit) {
    std::string flipped = body;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto parsed = Operation::Parse(Bytes(flipped));
    EXPECT_TRUE(!parsed.ok() || *parsed != Example()) << bit;
  }
}

TEST(OperationTest, MoreElementsThanATensorMayHaveAreRefused) {
  Operation operation = Example();
  operation.elements = Operation::kMostBytes / 4;
  EXPECT_TRUE(Operation::Parse(Bytes(operation.Encode())).ok());
  // The last one's product with the size of an element would be 4.
  for (const std::uint64_t elements : {Operation::kMostBytes / 4 + 1, Operation::kMostBytes,
                                       ~std::uint64_t{0}, (std::uint64_t{1} << 62) + 1}) {
    operation.elements = elements;
    const auto parsed = Operation::Parse(Bytes(operation.Encode()));
    ASSERT_FALSE(parsed.ok()) << elements;
    EXPECT_THAT(parsed.status().ToString(), ::testing::HasSubstr("\"weights\""));
  }
}

TEST(OperationTest, SizesThatWouldWrapAreRefusedWithTheMembersName) {
  const auto sum = [](std::vector<std::size_t> sizes) {
    return SumOfSizes(sizes, [](std::size_t member) { return fmt::format("worker:{}", member); });
  };
  constexpr std::size_t kMost = Operation::kMostBytes;
  EXPECT_EQ(sum({}).value(), 0U);
  EXPECT_EQ(sum({3, 0, 4}).value(), 7U);
  EXPECT_EQ(sum({kMost - 1, 1}).value(), kMost);
  EXPECT_THAT(sum({kMost - 1, 2}).status().ToString(), ::testing::HasSubstr("worker:1 wants"));
  // Their sum is 8, modulo 2^64.
  EXPECT_THAT(sum({~std::size_t{0} - 7, 16}).status().ToString(),
              ::testing::HasSubstr("worker:0 wants"));
  EXPECT_THAT(sum({5, 8, ~std::size_t{0} - 4}).status().ToString(),
              ::testing::HasSubstr("worker:2 wants"));
}

TEST(OperationTest, WrongSizesAreRefused) {
  const std::string body = Example().Encode();
  EXPECT_FALSE(Operation::Parse(Bytes(body).first(Operation::kHeadBytes - 1)).ok());
  const std::string longest =
      body.substr(0, Operation::kHeadBytes) + std::string(Operation::kLongestName + 1, 'x');
  EXPECT_FALSE(Operation::Parse(Bytes(longest)).ok());
}

}  // namespace
}  // namespace tfos::collective
