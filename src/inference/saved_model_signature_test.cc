#include "inference/saved_model_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inference/test_saved_model.h"

namespace tfos::inference {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

TEST(SavedModelSignature, ReadsWhatTensorFlowWrites) {
  const std::string model = TestSavedModel();
  const auto graphs = ReadSavedModel(BytesOf(model));
  ASSERT_TRUE(graphs.ok()) << graphs.status().ToString();
  ASSERT_EQ(graphs->size(), 1U);
  EXPECT_THAT((*graphs)[0].tags, ElementsAre("serve"));
  ASSERT_EQ((*graphs)[0].signatures.size(), 1U);  // TensorFlow's own is left out.
  const Signature& signature = (*graphs)[0].signatures[0];
  EXPECT_EQ(signature.name, "serving_default");
  ASSERT_EQ(signature.inputs.size(), 2U);
  EXPECT_EQ(signature.inputs[0].name, "pixels");
  EXPECT_EQ(signature.inputs[0].edge, "serving_default_pixels:0");
  EXPECT_EQ(TypeText(signature.inputs[0]), "float32[?, 784]");
  EXPECT_EQ(TypeText(signature.inputs[1]), "string[?]");
  ASSERT_EQ(signature.outputs.size(), 1U);
  EXPECT_EQ(TypeText(signature.outputs[0]), "int64 of any shape");
}

TEST(SavedModelSignature, FindsByTagsAndName) {
  const std::string model = TestSavedModel();
  const auto graphs = ReadSavedModel(BytesOf(model));
  ASSERT_TRUE(graphs.ok());
  const std::vector<std::string> serve{"serve"};
  EXPECT_TRUE(FindSignature(*graphs, serve, "serving_default").ok());
  EXPECT_THAT(FindSignature(*graphs, serve, "predict").status().ToString(),
              HasSubstr("no signature 'predict'; it has 'serving_default'"));
  const std::vector<std::string> others{"serve", "gpu"};
  EXPECT_THAT(FindSignature(*graphs, others, "serving_default").status().ToString(),
              HasSubstr("no graph with the tags 'serve,gpu'; it has 'serve'"));
}

TEST(SavedModelSignature, RefusesWhatIsNone) {
  EXPECT_FALSE(ReadSavedModel({}).ok());
  EXPECT_FALSE(ReadSavedModel(BytesOf("no SavedModel")).ok());
  std::string name(3, '\xff');
  const std::string model = GraphMessage({{name, SignatureMessage({}, {})}});
  EXPECT_FALSE(ReadSavedModel(BytesOf(model)).ok());
}

TEST(SavedModelSignature, SaysWhyThereIsNoModel) {
  EXPECT_EQ(WhyNoSavedModel({.path = "/m"}), "no such directory: /m");
  const std::string none =
      "/m has no saved_model.pb, so it isn't a SavedModel: export one with model.export(...) or "
      "tf.saved_model.save(...)";
  EXPECT_EQ(WhyNoSavedModel({.path = "/m", .exists = true}),
            none + "; this is a file, and a SavedModel a directory");
  EXPECT_EQ(WhyNoSavedModel({.path = "/m", .exists = true, .is_directory = true}), none);
  EXPECT_EQ(WhyNoSavedModel(
                {.path = "/m", .exists = true, .is_directory = true, .below = {"/m/b", "/m/a"}}),
            none + "; /m/a, /m/b would be one");
}

TEST(SavedModelSignature, HasLimits) {
  TestShape shape(255, 1);
  const std::string model =
      GraphMessage({{"s", SignatureMessage({{"x", TensorMessage("x:0", 1, shape)}}, {})}});
  EXPECT_FALSE(ReadSavedModel(BytesOf(model)).ok());
  shape.resize(254);
  const std::string smaller =
      GraphMessage({{"s", SignatureMessage({{"x", TensorMessage("x:0", 1, shape)}}, {})}});
  EXPECT_TRUE(ReadSavedModel(BytesOf(smaller)).ok());
}

// Whatever a flipped bit makes of it, it is read or refused: sanitizers see the rest.
TEST(SavedModelSignature, SurvivesFlippedBitsAndCuts) {
  const std::string model = TestSavedModel();
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < model.size() * 8; ++bit) {
    std::string damaged = model;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    refused += ReadSavedModel(BytesOf(damaged)).ok() ? 0U : 1U;
  }
  EXPECT_GT(refused, 0U);
  for (std::size_t size = 1; size < model.size(); ++size) {
    EXPECT_FALSE(ReadSavedModel(BytesOf(model).first(size)).ok()) << size;
  }
}

}  // namespace
}  // namespace tfos::inference
