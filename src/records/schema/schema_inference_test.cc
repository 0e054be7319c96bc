#include "records/schema/schema_inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "records/example/test_examples.h"

namespace tfos::records {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// As ColumnOf reads it.
std::string Show(const ExampleColumn& column) {
  std::string type(ElementTypeName(column.type));
  if (column.shape == ColumnShape::kList) type = "[" + type + "]";
  if (column.shape == ColumnShape::kListOfLists) type = "[[" + type + "]]";
  return column.name + ":" + type + (column.nullable ? "" : "!");
}

Result<std::vector<std::string>> Infer(const std::vector<std::string>& records,
                                       RecordType type = RecordType::kExample,
                                       BytesAs bytes_as = BytesAs::kBinary) {
  SchemaInference inference(type, bytes_as);
  for (std::size_t i = 0; i < records.size(); ++i) {
    TFOS_RETURN_IF_ERROR(inference.Add(Bytes(records[i]), fmt::format("record {}", i)));
  }
  TFOS_ASSIGN_OR_RETURN(const ExampleSchema schema, inference.Finish());
  std::vector<std::string> columns;
  for (const ExampleColumn& column : schema.columns) columns.push_back(Show(column));
  return columns;
}

TEST(SchemaInferenceTest, KindsAndShapes) {
  const std::vector<std::string> records = {ExampleOf({{"list", Int64Feature({1, 2})},
                                                       {"same", FloatFeature({1, 2})},
                                                       {"one", BytesFeature({"x"})},
                                                       {"some", Int64Feature({1})},
                                                       {"longer", Int64Feature({1})}}),
                                            ExampleOf({{"list", Int64Feature({3})},
                                                       {"same", FloatFeature({1, 2})},
                                                       {"one", BytesFeature({"\xFF"})},
                                                       {"some", Int64Feature({})},
                                                       {"longer", Int64Feature({1, 2})}})};
  EXPECT_THAT(Infer(records).value(), ElementsAre("list:[int64]!", "longer:[int64]!", "one:binary!",
                                                  "same:[float]!", "some:int64"));
}

TEST(SchemaInferenceTest, KeysWithoutEndAreRefused) {
  SchemaInference many(RecordType::kExample, BytesAs::kBinary);
  for (std::size_t i = 0; i < SchemaInference::kMostKeys; ++i) {
    ASSERT_TRUE(
        many.Add(Bytes(ExampleOf({{fmt::format("key {}", i), Int64Feature({1})}})), "f").ok());
  }
  EXPECT_TRUE(many.Finish().ok());
  EXPECT_TRUE(many.Add(Bytes(ExampleOf({{"key 7", Int64Feature({1})}})), "f").ok());
  const Status refused = many.Add(Bytes(ExampleOf({{"new", Int64Feature({1})}})), "record 9 of f");
  EXPECT_THAT(refused.ToString(), HasSubstr("record 9 of f: with it there are more than 65536"));
  // A caller that passes over refused records does not take the rest for all.
  EXPECT_EQ(many.Finish().status().ToString(), refused.ToString());

  SchemaInference longer(RecordType::kExample, BytesAs::kBinary);
  const std::string half(SchemaInference::kMostKeyBytes / 2, 'k');
  EXPECT_TRUE(longer.Add(Bytes(ExampleOf({{half, Int64Feature({1})}})), "f").ok());
  EXPECT_TRUE(longer.Add(Bytes(ExampleOf({{half, Int64Feature({1})}})), "f").ok());
  EXPECT_FALSE(longer.Add(Bytes(ExampleOf({{half + "k", Int64Feature({1})}})), "f").ok());
}

TEST(SchemaInferenceTest, ARecordThatBreaksOffTeachesNothing) {
  for (const RecordType type : {RecordType::kExample, RecordType::kSequenceExample}) {
    const bool lists = type == RecordType::kSequenceExample;
    const std::string good = ExampleOf({{"n", Int64Feature({1})}});
    std::string broken = ExampleOf({{"n", FloatFeature({1, 2})}, {"more", BytesFeature({"\xFF"})}});
    if (lists) broken += Delimited(2, MapOf({{"n", Delimited(1, Int64Feature({1}))}}));
    broken += "\x0A\x7F";
    SchemaInference inference(type, BytesAs::kStringWhereUtf8);
    EXPECT_TRUE(inference.Add(Bytes(good), "first").ok());
    EXPECT_THAT(inference.Add(Bytes(broken), "second").ToString(),
                HasSubstr("second: the record is not a valid tf."));
    EXPECT_TRUE(inference.Add(Bytes(good), "third").ok());
    EXPECT_EQ(inference.records(), 2U);
    const auto schema = inference.Finish();
    ASSERT_TRUE(schema.ok()) << schema.status().ToString();
    ASSERT_EQ(schema->columns.size(), 1U);
    EXPECT_EQ(Show(schema->columns[0]), "n:int64!");
  }
}

TEST(SchemaInferenceTest, WhatIsNeverThereIsLeftOut) {
  EXPECT_THAT(Infer({GoldenExample()}).value(),
              ElementsAre("b:[binary]!", "f:[float]!", "i:[int64]!"));
  EXPECT_THAT(Infer({}).value(), ElementsAre());
}

TEST(SchemaInferenceTest, MissingKeysMakeAColumnNullable) {
  const auto with = [](int n) { return ExampleOf({{"n", Int64Feature({n})}}); };
  EXPECT_THAT(Infer({with(1), ExampleOf({}), with(2)}).value(), ElementsAre("n:int64"));
  EXPECT_THAT(Infer({with(1), ExampleOf({{"n", ""}})}).value(), ElementsAre("n:int64"));
  // Twice in one record makes up for none in another only if it is counted twice.
  const std::string twice = ExampleOf({{"n", Int64Feature({1})}, {"n", Int64Feature({2})}});
  EXPECT_THAT(Infer({twice, ExampleOf({})}).value(), ElementsAre("n:int64"));
}

TEST(SchemaInferenceTest, StringsWhereAskedFor) {
  const std::vector<std::string> records = {
      ExampleOf({{"text", BytesFeature({"\xC3\xA4"})}, {"raw", BytesFeature({"\xC3"})}})};
  EXPECT_THAT(Infer(records, RecordType::kExample, BytesAs::kStringWhereUtf8).value(),
              ElementsAre("raw:binary!", "text:string!"));
}

TEST(SchemaInferenceTest, FeatureLists) {
  EXPECT_THAT(Infer({GoldenSequenceExample()}, RecordType::kSequenceExample).value(),
              ElementsAre("id:int64!", "steps:[[float]]!", "words:[[binary]]!"));
  const std::string both = ExampleOf({{"k", Int64Feature({1})}}) +
                           Delimited(2, MapOf({{"k", Delimited(1, Int64Feature({1}))}}));
  EXPECT_THAT(Infer({both}, RecordType::kSequenceExample).status().message(),
              HasSubstr("in the context and among the feature lists"));
}

TEST(SchemaInferenceTest, ExplainsConflicts) {
  const auto refused = Infer({ExampleOf({{"n", Int64Feature({1})}}), ExampleOf({{"n", ""}}),
                              ExampleOf({{"n", FloatFeature({1})}})});
  EXPECT_EQ(refused.status().message(),
            "key 'n' is an int64_list in record 0 and a float_list in record 2; give a schema with "
            "the type that it should have");
  EXPECT_THAT(Infer({"\x09"}).status().message(), HasSubstr("record 0: the record is not a valid"));
}

TEST(SchemaInferenceTest, SurvivesEveryFlippedBit) {
  for (std::string record : {GoldenExample(), GoldenSequenceExample()}) {
    for (std::size_t bit = 0; bit < record.size() * 8; ++bit) {
      record[bit / 8] ^= static_cast<char>(1 << (bit % 8));
      SchemaInference inference(RecordType::kSequenceExample, BytesAs::kStringWhereUtf8);
      const std::vector<char> copy(record.begin(), record.end());
      if (inference.Add(std::as_bytes(std::span(copy)), "it").ok()) {
        static_cast<void>(inference.Finish().ok());
      }
      record[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    }
  }
}

}  // namespace
}  // namespace tfos::records
