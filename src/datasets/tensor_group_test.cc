#include "datasets/tensor_group.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "collective/test_members.h"
#include "tensorflow/tf_codes.h"
#include "testing/no_memory.h"

namespace tfos::datasets {
namespace {

using Outcome = std::pair<std::int32_t, std::string>;

tfos_tensor_group registered{};

/// In place of the ops library's functions.
std::int64_t Register(const tfos_tensor_group* group) {
  registered = *group;
  registered.retain(registered.context);
  return 7;
}
void Unregister(std::int64_t handle) {
  EXPECT_EQ(handle, 7);
  registered.release(registered.context);
}

/// A group of one member, as ops see it.
class TensorGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto joined = TensorGroup::Join(std::move(collective::MakeMembers(1)[0]));
    ASSERT_TRUE(joined.ok()) << joined.status().ToString();
    group_ = std::move(*joined);
    ASSERT_TRUE(group_->Register(&Register, &Unregister).ok());
  }

  /// What a function of the table returns, and its message.
  Outcome AllReduce(std::int32_t dtype) {
    char* message = nullptr;
    double total = 0;
    const std::int32_t code = registered.all_reduce(registered.context, "sum", dtype, 0, 0, 1,
                                                    &tensor_, 1, &total, &message);
    return Take(code, message);
  }
  Outcome Broadcast() {
    char* message = nullptr;
    const std::int32_t code =
        registered.broadcast(registered.context, "first", 0, &tensor_, 1, &message);
    return Take(code, message);
  }

  std::array<float, 4> from_ = {1, 2, 3, 4};
  std::array<float, 4> to_ = {};
  const tfos_exchanged tensor_ = {.from = from_.data(), .to = to_.data(), .bytes = sizeof from_};
  std::unique_ptr<TensorGroup> group_;

 private:
  static Outcome Take(std::int32_t code, char* message) {
    tfos::testing::refuses_memory = nullptr;
    Outcome outcome(code, message == nullptr ? "" : message);
    registered.free_message(message);
    return outcome;
  }
};

const Outcome kDone(tensorflow::kTfOk, "");

TEST_F(TensorGroupTest, TheSumOfOneIsItsOwn) {
  EXPECT_EQ(AllReduce(tensorflow::kTfFloat), kDone);
  EXPECT_EQ(to_, from_);
}

TEST_F(TensorGroupTest, WhatCannotBeSummedUpIsNamed) {
  EXPECT_EQ(AllReduce(tensorflow::kTfString),
            Outcome(tensorflow::kTfInvalidArgument, "TensorFlow's type 7 can't be summed up"));
}

#ifndef TFOS_SANITIZED
TEST_F(TensorGroupTest, WithoutMemoryACallFailsAndTheNextOneIsMade) {
  const Outcome no_memory(tensorflow::kTfResourceExhausted, "no memory");
  tfos::testing::refuses_memory = tfos::testing::RefuseAll;
  EXPECT_EQ(AllReduce(tensorflow::kTfFloat), no_memory);
  EXPECT_EQ(AllReduce(tensorflow::kTfFloat), kDone);
  tfos::testing::refuses_memory = tfos::testing::RefuseAll;
  EXPECT_EQ(Broadcast(), no_memory);
  EXPECT_EQ(Broadcast(), kDone);
  EXPECT_EQ(to_, from_);
}
#endif

}  // namespace
}  // namespace tfos::datasets
