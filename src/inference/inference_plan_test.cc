#include "inference/inference_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrow/export.h"
#include "inference/output_column.h"
#include "tensorflow/tf_codes.h"

namespace tfos::inference {
namespace {

using namespace tensorflow;  // NOLINT: its type codes.
using testing::ElementsAre;
using testing::HasSubstr;

arrow::Field Column(std::string name, std::string format, std::vector<arrow::Field> children = {}) {
  return {.name = std::move(name),
          .format = std::move(format),
          .buffers = {},
          .memory = {},
          .children = std::move(children)};
}

arrow::Field List(std::string name, arrow::Field element) {
  return Column(std::move(name), "+l", {std::move(element)});
}

TensorSpec Tensor(std::string name, int dtype, std::optional<std::vector<std::int64_t>> shape) {
  return {.name = name, .edge = name + ":0", .dtype = dtype, .shape = std::move(shape)};
}

Result<InferencePlan> Plan(const Signature& signature, std::vector<arrow::Field> columns,
                           const Mapping& mapping = {}) {
  struct Release {
    void operator()(ArrowSchema* schema) const {
      schema->release(schema);
      delete schema;
    }
  };
  const std::unique_ptr<ArrowSchema, Release> table(
      new ArrowSchema(arrow::ExportSchema(Column("", "+s", std::move(columns)))));
  return InferencePlan::Make(signature, mapping, *table);
}

/// The message for one input and one column.
std::string Problem(TensorSpec tensor, arrow::Field column) {
  const std::string name = tensor.name;
  column.name = name;
  return Plan({.name = "s", .inputs = {std::move(tensor)}, .outputs = {}}, {std::move(column)})
      .status()
      .ToString();
}

TEST(InferencePlan, TakesWhatFits) {
  const auto number = Tensor("x", kTfFloat, {{-1}});
  EXPECT_EQ(Problem(number, Column("x", "f")), "ok");
  EXPECT_EQ(Problem(number, Column("x", "g")), "ok");
  EXPECT_EQ(Problem(number, Column("x", "d:10,2")), "ok");
  EXPECT_EQ(Problem(Tensor("x", kTfFloat, {{-1, 1}}), Column("x", "l")), "ok");
  const auto image = Tensor("x", kTfFloat, {{-1, 28, 28, 1}});
  EXPECT_EQ(Problem(image, List("x", Column("item", "f"))), "ok");
  EXPECT_EQ(Problem(Tensor("x", kTfUint8, {{-1, 28}}), Column("x", "z")), "ok");
  EXPECT_EQ(Problem(Tensor("x", kTfString, {{-1}}), Column("x", "u")), "ok");
  EXPECT_EQ(Problem(Tensor("x", kTfInt64, std::nullopt), List("x", Column("item", "l"))), "ok");
  EXPECT_EQ(Problem(Tensor("x", kTfString, {{-1, 3}}), List("x", Column("item", "u"))), "ok");
  EXPECT_EQ(Problem(Tensor("x", kTfString, {{-1, 3}}), List("x", Column("item", "z"))), "ok");
  EXPECT_EQ(Problem(Tensor("x", kTfString, std::nullopt), List("x", Column("item", "u"))), "ok");
}

TEST(InferencePlan, RaggedInputsAreMadeOfLists) {
  const auto problem = [](int dtype, arrow::Field column) {
    const Signature signature{
        .name = "s",
        .inputs = {Tensor("x", dtype, {{-1}}), Tensor("x_1", kTfInt64, {{-1}})},
        .outputs = {}};
    return Plan(signature, {std::move(column)},
                {.inputs = {{"words", "x", "x_1"}}, .outputs = {}, .binary = {}})
        .status()
        .ToString();
  };
  EXPECT_EQ(problem(kTfString, List("words", Column("item", "u"))), "ok");
  EXPECT_EQ(problem(kTfString, List("words", Column("item", "z"))), "ok");
  EXPECT_THAT(problem(kTfString, Column("words", "u")), HasSubstr("a list of numbers or strings"));
  EXPECT_THAT(problem(kTfInt64, List("words", Column("item", "u"))),
              HasSubstr("it has no strings"));
  EXPECT_THAT(problem(kTfString, List("words", Column("item", "l"))),
              HasSubstr("int64 does not become string"));
}

TEST(InferencePlan, SaysWhatDoesNotFit) {
  const auto vector = Tensor("x", kTfFloat, {{-1, 4}});
  EXPECT_THAT(Problem(vector, Column("x", "u")),
              HasSubstr("input x: expected float32[?, 4], found column 'x' of string"));
  EXPECT_THAT(Problem(vector, Column("x", "f")), HasSubstr("a row has one number"));
  EXPECT_THAT(Problem(Tensor("x", kTfInt32, {{-1}}), Column("x", "f")),
              HasSubstr("float32 does not become int32"));
  EXPECT_THAT(Problem(Tensor("x", kTfInt32, {{-1}}), List("x", Column("item", "i"))),
              HasSubstr("found column 'x' of list of int32: a row has a list"));
  EXPECT_THAT(Problem(Tensor("x", kTfString, {{-1}}), Column("x", "i")),
              HasSubstr("int32 does not become string"));
  EXPECT_THAT(Problem(Tensor("x", kTfString, {{-1}}), List("x", Column("item", "u"))),
              HasSubstr("found column 'x' of list of string: a row has a list, and the tensor one "
                        "string"));
  EXPECT_THAT(Problem(Tensor("x", kTfString, {{-1, 3}}), Column("x", "u")),
              HasSubstr("a row has one string, and the tensor more"));
  EXPECT_THAT(Problem(Tensor("x", kTfUint8, {{-1, 3}}), List("x", Column("item", "z"))),
              HasSubstr("it has no strings"));
  EXPECT_THAT(Problem(Tensor("x", kTfFloat, {{}}), Column("x", "f")),
              HasSubstr("no dimension for the rows"));
  EXPECT_THAT(Problem(Tensor("x", kTfFloat, {{-1, -1, -1}}), List("x", Column("item", "f"))),
              HasSubstr("more than one size is unknown"));
  EXPECT_THAT(Problem(Tensor("x", kTfFloat, {{-1}}), Column("x", "d:50,2,256")),
              HasSubstr("columns of this type can't be given to a model"));
}

TEST(InferencePlan, ListsAllThatIsWrongAndWhatThereIs) {
  const Signature signature{
      .name = "predict",
      .inputs = {Tensor("a", kTfFloat, {{-1}}), Tensor("b", kTfInt64, {{-1}})},
      .outputs = {Tensor("y", kTfFloat, {{-1, 2}})}};
  const std::string text =
      Plan(signature, {Column("c", "u"), Column("d", "l")},
           {.inputs = {{"c", "a", ""}, {"e", "x", ""}}, .outputs = {{"z", "z"}}, .binary = {"y"}})
          .status()
          .ToString();
  EXPECT_THAT(text, HasSubstr("the signature 'predict'"));
  EXPECT_THAT(text, HasSubstr("input a: expected float32[?], found column 'c' of string"));
  EXPECT_THAT(text, HasSubstr("input x: the signature has no such input; it has a float32[?], b"));
  EXPECT_THAT(text, HasSubstr("input b: expected int64[?], found no column mapped to it"));
  EXPECT_THAT(text,
              HasSubstr("output z: the signature has no such output; it has y float32[?, 2]"));
  EXPECT_THAT(text, HasSubstr("binary output y: expected an output of strings"));
  EXPECT_THAT(text, HasSubstr("The columns: c string, d int64"));
}

TEST(InferencePlan, MapsColumnsAndOutputs) {
  const Signature signature{
      .name = "s",
      .inputs = {Tensor("x", kTfInt64, {{-1}}), Tensor("x_1", kTfInt64, {{-1}})},
      .outputs = {Tensor("y", kTfFloat, {{-1, 2, -1}}), Tensor("z", kTfUint8, {{-1}})}};
  const auto plan = Plan(signature, {Column("other", "u"), List("words", Column("item", "i"))},
                         {.inputs = {{"words", "x", "x_1"}}, .outputs = {}, .binary = {}});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_THAT(plan->columns, ElementsAre("words"));
  EXPECT_FALSE(plan->fixed_rows);
  const arrow::Field y = OutputColumn::Type(plan->outputs[0]);
  EXPECT_EQ(y.name, "y");
  EXPECT_EQ(y.format + y.children[0].format + y.children[0].children[0].format, "+l+lf");
  EXPECT_EQ(OutputColumn::Type(plan->outputs[1]).format, "s");
}

TEST(InferencePlan, KnowsAFixedNumberOfRows) {
  const Signature signature{
      .name = "s", .inputs = {Tensor("x", kTfFloat, {{8, 2}})}, .outputs = {}};
  const auto plan = Plan(signature, {List("x", Column("item", "f"))});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->fixed_rows, 8U);
}

}  // namespace
}  // namespace tfos::inference
