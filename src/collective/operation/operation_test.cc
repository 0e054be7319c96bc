#include "collective/operation/operation.h"

#include <gtest/gtest.h>

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

TEST(OperationTest, WrongSizesAreRefused) {
  const std::string body = Example().Encode();
  EXPECT_FALSE(Operation::Parse(Bytes(body).first(Operation::kHeadBytes - 1)).ok());
  const std::string longest =
      body.substr(0, Operation::kHeadBytes) + std::string(Operation::kLongestName + 1, 'x');
  EXPECT_FALSE(Operation::Parse(Bytes(longest)).ok());
}

}  // namespace
}  // namespace tfos::collective
