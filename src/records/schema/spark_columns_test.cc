#include "records/schema/spark_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace tfos::records {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

json ArrayOf(json element) {
  return {{"type", "array"}, {"elementType", std::move(element)}, {"containsNull", true}};
}

json Field(const std::string& name, json type) {
  return {
      {"name", name}, {"type", std::move(type)}, {"nullable", true}, {"metadata", json::object()}};
}

json Struct(json fields) { return {{"type", "struct"}, {"fields", std::move(fields)}}; }

const json kVector = {{"type", "udt"},
                      {"class", "org.apache.spark.ml.linalg.VectorUDT"},
                      {"pyClass", "pyspark.ml.linalg.VectorUDT"},
                      {"sqlType", Struct(json::array())}};

/// What is said of a column c; "" when it is well.
std::string Said(const json& type, RecordType records = RecordType::kExample,
                 ColumnUse use = ColumnUse::kWritten) {
  const Status status =
      CheckSparkColumns(Struct(json::array({Field("c", type)})).dump(), records, use);
  return status.ok() ? "" : status.ToString();
}

TEST(SparkColumnsTest, ColumnsThatRecordsHold) {
  for (const char* type :
       {"boolean", "byte", "short", "integer", "long", "float", "double", "decimal(8,2)", "decimal",
        "string", "string collate UTF8_LCASE", "char(3)", "varchar(3)", "binary"}) {
    EXPECT_EQ(Said(type), "") << type;
    EXPECT_EQ(Said(ArrayOf(type)), "") << type;
    EXPECT_EQ(Said(ArrayOf(ArrayOf(type)), RecordType::kSequenceExample), "") << type;
  }
  EXPECT_EQ(Said(kVector), "");
}

TEST(SparkColumnsTest, ColumnsThatRecordsCannotHoldAreNamedWithWhatToDo) {
  for (const auto& [type, text] :
       {std::pair<json, std::string>{"date", "date: cast it to a string"},
        {"timestamp", "timestamp: cast it to a string"},
        {"timestamp_ntz", "timestamp_ntz: cast it to a string"},
        {"void", "void: cast it to a number"},
        {"interval day", "interval day: cast it to a number"},
        {Struct(json::array({Field("a", "integer"), Field("b", "long")})),
         "struct<a:int,b:bigint>: select its fields"},
        {{{"type", "map"}, {"keyType", "short"}, {"valueType", "byte"}},
         "map<smallint,tinyint>: make an array of its keys"},
        {ArrayOf("date"), "array<date>: cast it to a string"}}) {
    EXPECT_THAT(Said(type), HasSubstr("this can't be written as TFRecords: column c is " + text));
  }
}

TEST(SparkColumnsTest, NestedArrays) {
  EXPECT_THAT(Said(ArrayOf(ArrayOf("long"))), HasSubstr("need recordType SequenceExample"));
  EXPECT_THAT(Said(ArrayOf(ArrayOf(ArrayOf("long"))), RecordType::kSequenceExample),
              HasSubstr("array<array<array<bigint>>>: arrays may be nested twice at most"));
}

TEST(SparkColumnsTest, VectorsAreWrittenAndNotRead) {
  EXPECT_THAT(
      Said(kVector, RecordType::kExample, ColumnUse::kRead),
      HasSubstr("this can't be read as TFRecords: column c is vector: declare array<float>"));
  EXPECT_THAT(Said(ArrayOf(kVector)), HasSubstr("array<vector>: an array of vectors can't be"));
}

TEST(SparkColumnsTest, EachColumnIsNamed) {
  const json schema =
      Struct(json::array({Field("a", "date"), Field("b", "long"), Field("c", "void")}));
  EXPECT_THAT(
      CheckSparkColumns(schema.dump(), RecordType::kExample, ColumnUse::kWritten).ToString(),
      AllOf(HasSubstr("column a is date"), HasSubstr("; column c is void")));
}

TEST(SparkColumnsTest, SchemasWithoutColumnsOrWithOneTwice) {
  const auto check = [](const json& fields) {
    return CheckSparkColumns(Struct(fields).dump(), RecordType::kExample, ColumnUse::kRead)
        .ToString();
  };
  EXPECT_THAT(check(json::array()), HasSubstr("a schema without columns can't be read"));
  EXPECT_THAT(check(json::array({Field("a", "long"), Field("a", "date")})),
              HasSubstr("column a is there twice; rename one"));
}

TEST(SparkColumnsTest, ByteArraysHaveOneColumnOfTextOrBytes) {
  EXPECT_EQ(Said("binary", RecordType::kByteArray), "");
  EXPECT_EQ(Said("string", RecordType::kByteArray), "");
  EXPECT_THAT(Said("integer", RecordType::kByteArray), EndsWith("and not struct<c:int>"));
}

TEST(SparkColumnsTest, AnythingElseIsNoSchema) {
  const std::string deep(100'000, '[');
  for (const std::string& text : {std::string("{"), std::string("[]"), std::string("{}"), deep}) {
    EXPECT_EQ(CheckSparkColumns(text, RecordType::kExample, ColumnUse::kRead).kind(),
              ErrorKind::kBadInput);
  }
}

}  // namespace
}  // namespace tfos::records
