#include "jvm/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "jvm/column_layout.h"

namespace tfos::jvm {
namespace {

using inference::Signature;
using inference::TensorSpec;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kFloat32 = 1;
constexpr int kString = 7;

/// x float32[?, 2] and any-shaped w -> y float32[?].
Signature Sample() {
  const std::vector<std::int64_t> pair = {TensorSpec::kUnknown, 2};
  const std::vector<std::int64_t> single = {TensorSpec::kUnknown};
  return {.name = "serve",
          .inputs = {{.name = "w", .edge = "w:0", .dtype = kString, .shape = std::nullopt},
                     {.name = "x", .edge = "x:0", .dtype = kFloat32, .shape = pair}},
          .outputs = {{.name = "y", .edge = "y:1", .dtype = kFloat32, .shape = single}}};
}

nlohmann::json Column(const std::string& name, const std::string& format,
                      nlohmann::json children = nlohmann::json::array()) {
  return {{"name", name}, {"format", format}, {"nullable", true}, {"children", children}};
}

nlohmann::json Request(const std::string& element) {
  // Braces alone would make an object of pairs.
  const auto list = [](nlohmann::json::initializer_list_t items) {
    return nlohmann::json::array(items);
  };
  const nlohmann::json numbers = Column("numbers", "+l", list({Column("item", element)}));
  return {
      {"signature", SignatureToJson(Sample())},
      {"inputs", list({list({"numbers", "x", ""}), list({"word", "w", ""})})},
      {"outputs", list({list({"y", "score"})})},
      {"binary", list({})},
      {"table", Column("", "+s", list({Column("word", "u"), Column("unused", "tdD"), numbers}))}};
}

TEST(PlanJson, SignaturesComeBackAsTheyWere) {
  const Signature found =
      SignatureFromJson(nlohmann::json::parse(SignatureToJson(Sample()).dump()));
  EXPECT_EQ(found.name, "serve");
  ASSERT_EQ(found.inputs.size(), 2U);
  EXPECT_EQ(found.inputs[0].shape, std::nullopt);
  EXPECT_EQ(found.inputs[0].dtype, kString);
  EXPECT_EQ(found.inputs[1].shape, Sample().inputs[1].shape);
  ASSERT_EQ(found.outputs.size(), 1U);
  EXPECT_EQ(found.outputs[0].edge, "y:1");
}

// LeakSanitizer looks whether the type of the table was released.
TEST(PlanJson, ARequestWithoutItsSignatureIsRefused) {
  nlohmann::json request = Request("f");
  request.erase("signature");
  EXPECT_THROW(static_cast<void>(PlanFromJson(request)), nlohmann::json::out_of_range);
}

TEST(PlanJson, APlanHasTheTypeOfTheColumnsThatItWants) {
  const auto planned = PlanFromJson(Request("f"));
  ASSERT_TRUE(planned.ok()) << planned.status().ToString();
  EXPECT_THAT(planned->plan.columns, ElementsAre("numbers", "word"));
  ASSERT_EQ(planned->columns.children.size(), 2U);
  EXPECT_EQ(planned->columns.children[0].format, "+l");
  EXPECT_EQ(planned->columns.children[1].name, "word");

  const nlohmann::json plan = PlanToJson(planned->plan);
  EXPECT_EQ(plan.at("columns"), nlohmann::json({"numbers", "word"}));
  EXPECT_EQ(plan.at("fixedRows"), 0);
  const arrow::Field results = TypeFromJson(plan.at("results"));
  ASSERT_EQ(results.children.size(), 1U);
  EXPECT_EQ(results.children[0].name, "score");
  EXPECT_EQ(results.children[0].format, "f");
}

TEST(PlanJson, ColumnsThatDoNotFitAreSaid) {
  const auto planned = PlanFromJson(Request("u"));
  ASSERT_FALSE(planned.ok());
  EXPECT_EQ(planned.status().kind(), ErrorKind::kBadInput);
  EXPECT_THAT(planned.status().ToString(), HasSubstr("expected float32[?, 2], found column"));
}

}  // namespace
}  // namespace tfos::jvm
