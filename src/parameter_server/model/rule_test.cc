#include "parameter_server/model/rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/memory/half.h"

namespace tfos::parameter_server {
namespace {

template <typename T>
std::span<std::byte> Bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

template <typename T>
void Push(const Rule& rule, DType dtype, std::vector<T> pushed, std::vector<T>& values,
          std::uint64_t step = 2) {
  Combine(rule, step,
          {.dtype = dtype, .pushed = Bytes(pushed), .values = Bytes(values), .slots = {}});
}

TEST(RuleTest, AnAverageOfWhatNobodyChangesStaysToTheLastBit) {
  const Rule rule{.combiner = Combiner::kDelta, .workers = 7};
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 / static_cast<float>(i + 3);
  const std::vector<float> before = values;
  Combine(rule, 1,
          {.averaged = true,
           .pushed = std::as_bytes(std::span(before)),
           .values = std::as_writable_bytes(std::span(values)),
           .slots = {}});
  EXPECT_EQ(values, before);
}

TEST(RuleTest, CombinersHaveNames) {
  EXPECT_EQ(CombinerFrom("delta").value(), Combiner::kDelta);
  EXPECT_EQ(CombinerFrom("mean").value(), Combiner::kMean);
  EXPECT_EQ(CombinerFrom("update-mean").value(), Combiner::kUpdateMean);
  EXPECT_EQ(CombinerFrom("sgd").value(), Combiner::kSgd);
  EXPECT_EQ(CombinerFrom("adam").value(), Combiner::kAdam);
  const Status other = CombinerFrom("Sgd").status();
  EXPECT_EQ(other.kind(), ErrorKind::kBadInput);
  EXPECT_EQ(other.message(),
            "the combiner must be delta, mean, update-mean, sgd or adam, not 'Sgd'");
}

TEST(RuleTest, DeltaAdds) {
  std::vector<float> values{1, 2, 3};
  Push<float>({.combiner = Combiner::kDelta}, DType::kFloat32, {0.5, -1, 2}, values);
  EXPECT_EQ(values, (std::vector<float>{1.5, 1, 5}));
  std::vector<std::int64_t> integers{5};
  Push<std::int64_t>({.combiner = Combiner::kDelta}, DType::kInt64, {-7}, integers);
  EXPECT_EQ(integers, (std::vector<std::int64_t>{-2}));
}

TEST(RuleTest, MeanWeighsTheServerWithAllOthers) {
  const Rule rule{.combiner = Combiner::kMean, .workers = 4};
  std::vector<double> values{8, -4};
  Push<double>(rule, DType::kFloat64, {4, 4}, values);
  EXPECT_EQ(values, (std::vector<double>{7, -2}));
}

TEST(RuleTest, UpdateMeanTakesTheFirstAsItIs) {
  const Rule rule{.combiner = Combiner::kUpdateMean};
  std::vector<float> values{100};
  Push<float>(rule, DType::kFloat32, {2}, values, 1);
  EXPECT_EQ(values[0], 2);
  Push<float>(rule, DType::kFloat32, {4}, values, 2);
  EXPECT_EQ(values[0], 3);
}

TEST(RuleTest, HalvesAreCalculatedInFloat32) {
  const auto half = [](float value) { return Float16::FromFloat(value).bits; };
  std::vector<std::uint16_t> values{half(3)};
  Push<std::uint16_t>({.combiner = Combiner::kMean, .workers = 2}, DType::kFloat16, {half(4)},
                      values);
  EXPECT_EQ(values[0], half(3.5));
}

/// Three steps of one element by hand.
std::vector<double> StepsOf(const Rule& rule, const std::vector<double>& gradients) {
  std::vector<double> value{1};
  std::vector<double> slots[2] = {{0}, {0}};
  std::vector<double> seen;
  std::uint64_t step = 0;
  for (double gradient : gradients) {
    std::vector<double> pushed{gradient};
    Combine(rule, ++step,
            {.dtype = DType::kFloat64,
             .pushed = Bytes(pushed),
             .values = Bytes(value),
             .slots = {Bytes(slots[0]), Bytes(slots[1])}});
    seen.push_back(value[0]);
  }
  return seen;
}

TEST(RuleTest, DescentWithAndWithoutMomentum) {
  EXPECT_EQ(StepsOf({.combiner = Combiner::kSgd, .learning_rate = 0.5}, {1, 2}),
            (std::vector<double>{0.5, -0.5}));
  // v = 0.5 v - 0.5 g: -0.5, then -1.25.
  EXPECT_EQ(StepsOf({.combiner = Combiner::kSgd, .learning_rate = 0.5, .momentum = 0.5}, {1, 2}),
            (std::vector<double>{0.5, -0.75}));
  // w += 0.5 v - 0.5 g: -0.25 - 0.5, then -0.625 - 1.
  EXPECT_EQ(
      StepsOf({.combiner = Combiner::kSgd, .nesterov = true, .learning_rate = 0.5, .momentum = 0.5},
              {1, 2}),
      (std::vector<double>{0.25, -1.375}));
}

TEST(RuleTest, AdamsFirstStepIsTheLearningRate) {
  const Rule rule{.combiner = Combiner::kAdam,
                  .learning_rate = 0.1,
                  .beta_1 = 0.9,
                  .beta_2 = 0.999,
                  .epsilon = 1e-12};
  const auto seen = StepsOf(rule, {3, 3, 3});
  EXPECT_NEAR(seen[0], 0.9, 1e-9);
  EXPECT_NEAR(seen[2], 0.7, 1e-9);
}

TEST(RuleTest, WhatMakesNoSenseIsRefused) {
  const std::vector<Variable> floats{{DType::kFloat32, 1}};
  const std::vector<Variable> integers{{DType::kInt64, 1}};
  const Rule sgd{.combiner = Combiner::kSgd, .learning_rate = 0.1};
  EXPECT_TRUE(sgd.Check(floats).ok());
  EXPECT_FALSE(sgd.Check(integers).ok());
  EXPECT_FALSE((Rule{.combiner = Combiner::kMean}.Check(floats).ok()));
  // A counter of 10 where a worker has 11: the mean of four, 10.25, would be 10 for ever.
  const Rule mean{.combiner = Combiner::kMean, .workers = 4};
  EXPECT_TRUE(mean.Check(floats).ok());
  EXPECT_FALSE(mean.Check(integers).ok());
  EXPECT_FALSE((Rule{.combiner = Combiner::kUpdateMean}.Check(integers).ok()));
  const Rule delta{.combiner = Combiner::kDelta, .workers = 4};
  EXPECT_TRUE(delta.Check(integers).ok());
  EXPECT_FALSE(delta.Check(std::vector<Variable>{{DType::kInt64, 1, true}}).ok());
  EXPECT_FALSE((Rule{.combiner = static_cast<Combiner>(9)}.Check(floats).ok()));
  EXPECT_FALSE((Rule{.combiner = Combiner::kSgd, .learning_rate = NAN}.Check(floats).ok()));
  EXPECT_FALSE((Rule{.combiner = Combiner::kAdam, .beta_1 = 1}.Check(floats).ok()));
}

}  // namespace
}  // namespace tfos::parameter_server
