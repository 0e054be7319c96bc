#include "records/example/example_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "records/example/test_examples.h"

namespace tfos::records {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<ExampleDecoder> Decoder(const std::vector<std::string>& columns,
                                        RecordType type = RecordType::kExample) {
  auto decoder = ExampleDecoder::Create(SchemaOf(columns), type);
  EXPECT_TRUE(decoder.ok()) << decoder.status().ToString();
  return std::move(*decoder);
}

std::vector<std::string> Taken(ExampleDecoder& decoder) {
  Exported table;
  decoder.Take(table.schema, table.array);
  return ShowRows(table);
}

std::vector<std::string> Rows(const std::vector<std::string>& columns,
                              const std::vector<std::string>& records,
                              RecordType type = RecordType::kExample) {
  const auto decoder = Decoder(columns, type);
  for (const std::string& record : records) {
    const Status added = decoder->Add(Bytes(record));
    EXPECT_TRUE(added.ok()) << added.ToString();
  }
  return Taken(*decoder);
}

std::string Failure(const std::string& column, const std::string& record,
                    RecordType type = RecordType::kExample) {
  const auto decoder = Decoder({column}, type);
  const Status added = decoder->Add(Bytes(record));
  EXPECT_FALSE(added.ok());
  EXPECT_EQ(decoder->rows(), 0U);
  return added.ok() ? "" : added.ToString();
}

TEST(ExampleDecoderTest, ReadsWhatTensorFlowWrote) {
  EXPECT_THAT(Rows({"i:[int64]", "f:[float]", "b:[binary]", "empty:[int64]", "none:[int64]"},
                   {GoldenExample()}),
              ElementsAre("[1, -2, 300] [1.5, -2] ['ab', ''] [] null"));
  EXPECT_THAT(Rows({"i:[int16;3]", "f:[double;2]", "b:[string]", "empty:int8", "absent:string"},
                   {GoldenExample(), GoldenExample()}),
              testing::Each("[1, -2, 300] [1.5, -2] ['ab', ''] null null"));
}

TEST(ExampleDecoderTest, ReadsSequenceExamples) {
  EXPECT_THAT(
      Rows(
          {"id:int64", "steps:[[float]]", "words:[[string]]", "none:[[int64]]", "absent:[[int64]]"},
          {GoldenSequenceExample(), GoldenSequenceExample()}, RecordType::kSequenceExample),
      testing::Each("7 [[1, 2], [3]] [['x']] [] null"));
  // A key is one thing in the context and another among the lists.
  EXPECT_THAT(Rows({"steps:[float]"}, {GoldenSequenceExample()}, RecordType::kSequenceExample),
              ElementsAre("null"));
  const auto refused = ExampleDecoder::Create(SchemaOf({"a:[[float]]"}), RecordType::kExample);
  EXPECT_THAT(refused.status().message(), HasSubstr("only a SequenceExample has"));
}

TEST(ExampleDecoderTest, EveryTypeOfSingleValues) {
  const std::vector<std::string> records = {
      ExampleOf(
          {{"n", Int64Feature({100})}, {"x", FloatFeature({0.5})}, {"s", BytesFeature({"a"})}}),
      ExampleOf({}),
      ExampleOf({{"n", Int64Feature({-1})}, {"x", FloatFeature({-2})}, {"s", BytesFeature({""})}})};
  for (const char* type : {"int8", "int16", "int32", "int64"}) {
    EXPECT_THAT(Rows({std::string("n:") + type}, records), ElementsAre("100", "null", "-1"));
  }
  EXPECT_THAT(Rows({"n:bool"}, records), ElementsAre("true", "null", "true"));
  for (const char* type : {"float", "double"}) {
    EXPECT_THAT(Rows({std::string("x:") + type}, records), ElementsAre("0.5", "null", "-2"));
  }
  for (const char* type : {"string", "binary"}) {
    EXPECT_THAT(Rows({std::string("s:") + type}, records), ElementsAre("'a'", "null", "''"));
  }
}

TEST(ExampleDecoderTest, EveryShapeWithNulls) {
  std::vector<std::string> records;
  std::vector<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    if (i % 7 == 3) {
      records.push_back(ExampleOf({}));
      expected.push_back("null null null");
    } else {
      records.push_back(ExampleOf({{"flags", Int64Feature({i % 2, 1})},
                                   {"words", BytesFeature({std::string(i % 5, 'w'), "x"})},
                                   {"list", Int64Feature(std::vector<std::int64_t>(i % 3, i))}}));
      const std::string n = std::to_string(i);
      expected.push_back(fmt::format("[{}, true] ['{}', 'x'] [{}]", i % 2 == 1,
                                     std::string(i % 5, 'w'),
                                     i % 3 == 0   ? ""
                                     : i % 3 == 1 ? n
                                                  : n + ", " + n));
    }
  }
  EXPECT_EQ(Rows({"flags:[bool;2]", "words:[string;2]", "list:[int32]"}, records), expected);
}

TEST(ExampleDecoderTest, KeysInAnyOrderAndUnknownOnes) {
  const std::string n = Int64Feature({5});
  const std::string s = BytesFeature({"s"});
  const std::vector<std::string> records = {
      ExampleOf({{"n", n}, {"s", s}}), ExampleOf({{"s", s}, {"n", n}}),
      ExampleOf({{"x", n}, {"n", n}, {std::string(300, 'k'), s}, {"s", s}, {"", n}}),
      ExampleOf({{"x", n}, {"n", n}, {std::string(300, 'j'), s}, {"s", s}, {"n2", n}}),
      ExampleOf({{"n", n}, {"x", n}, {"s", s}})};
  EXPECT_THAT(Rows({"s:string", "n:int64"}, records), testing::Each("'s' 5"));
  EXPECT_THAT(Rows({":int64"}, records), ElementsAre("null", "null", "5", "null", "null"));
}

TEST(ExampleDecoderTest, TheLastOfEqualKeysCounts) {
  EXPECT_THAT(Rows({"n:int64"}, {ExampleOf({{"n", Int64Feature({1})}, {"n", Int64Feature({2})}}),
                                 ExampleOf({{"n", Int64Feature({1})}, {"n", ""}})}),
              ElementsAre("2", "null"));
}

TEST(ExampleDecoderTest, WhatProtobufWouldAlsoTake) {
  const auto rows = [](const char* column, const std::string& feature) {
    return Rows({column}, {ExampleOf({{"k", feature}})})[0];
  };
  // Not packed.
  EXPECT_EQ(rows("k:[int64]", Delimited(3, "\x08\x05\x08\x07")), "[5, 7]");
  const std::string one = std::string("\x0D\x00\x00\x80\x3F", 5);
  EXPECT_EQ(rows("k:[float]", Delimited(2, one + one)), "[1, 1]");
  // Both, in two pieces, with fields that mean nothing.
  const std::string strange = Varint(9 << 3) + "\x01" + Delimited(8, "?") +
                              std::string("\x7B\x08\x01\x7C", 4) +      // a group
                              std::string("\x61zzzzzzzz\x55zzzz", 14);  // fixed 64 and 32
  EXPECT_EQ(
      rows("k:[int64]", strange + Delimited(3, Delimited(1, "\x01\x02") + strange + "\x08\x03") +
                            strange + Delimited(3, Delimited(1, "\x04"))),
      "[1, 2, 3, 4]");
  // Another kind takes the place of the one before.
  EXPECT_EQ(rows("k:[float]", Int64Feature({1}) + FloatFeature({2}) + FloatFeature({3})), "[2, 3]");
  // Features in two pieces; an entry whose value comes first; one without a value.
  const std::string value_first =
      Delimited(1, Delimited(1, Delimited(2, Int64Feature({4})) + Delimited(1, "b")));
  EXPECT_THAT(Rows({"a:int64", "b:int64", "c:int64"},
                   {ExampleOf({{"a", Int64Feature({3})}}) + strange + value_first +
                    Delimited(1, Delimited(1, Delimited(1, "c")))}),
              ElementsAre("3 4 null"));
}

TEST(ExampleDecoderTest, SaysWhatDoesNotFit) {
  const auto with = [](const std::string& feature) { return ExampleOf({{"k", feature}}); };
  EXPECT_THAT(Failure("k:int64", with(FloatFeature({1}))),
              HasSubstr("column 'k': the record has a float_list, and int64 wants an int64_list"));
  EXPECT_THAT(Failure("k:int64", with(Int64Feature({1, 2}))), HasSubstr("2 values where one goes"));
  EXPECT_THAT(Failure("k:[float;3]", with(FloatFeature({1}))), HasSubstr("1 values where 3 go"));
  EXPECT_THAT(Failure("k:[float;3]", with(FloatFeature({}))), HasSubstr("0 values where 3 go"));
  EXPECT_THAT(Failure("k:int8", with(Int64Feature({128}))), HasSubstr("that int8 does not hold"));
  EXPECT_THAT(Failure("k:[int32]", with(Int64Feature({0, INT64_MIN}))), HasSubstr("int32"));
  EXPECT_THAT(Failure("k:string", with(BytesFeature({"\xFF"}))),
              AllOf(HasSubstr("not UTF-8"), HasSubstr("binary")));
  EXPECT_THAT(Failure("k:int64!", with("")), HasSubstr("not nullable"));
  EXPECT_THAT(Failure("k:int64!", ExampleOf({})), HasSubstr("not nullable"));
  EXPECT_THAT(Failure("k:int64", "\x01\x02\x03"), HasSubstr("not a valid tf.Example"));
  EXPECT_THAT(Failure("k:[int64]", with(Delimited(3, Delimited(1, "\x80")))),
              HasSubstr("column 'k': the record is not a valid tf.Example there"));
  EXPECT_THAT(Failure("k:[float]", with(Delimited(2, Delimited(1, "abc")))),
              HasSubstr("not a valid"));
}

TEST(ExampleDecoderTest, ARecordThatFailsLeavesNothingBehind) {
  const std::vector<std::string> columns = {"a:int32",    "b:[string]", "c:[bool;3]",
                                            "d:[[int8]]", "e:bool",     "f:int8"};
  const auto record = [](int n, std::int64_t last) {
    Entries features = {{"b", BytesFeature({"text", std::to_string(n)})},
                        {"c", Int64Feature({n % 2, 1, 0})},
                        {"e", Int64Feature({n % 3})},
                        {"f", Int64Feature({last})}};
    if (n % 4 != 0) features.emplace_back("a", Int64Feature({n}));
    const std::string inner = Delimited(1, Int64Feature({n, 1})) + Delimited(1, "");
    return ExampleOf(features) + Delimited(2, MapOf({{"d", inner}}));
  };
  const auto clean = Decoder(columns, RecordType::kSequenceExample);
  const auto dirty = Decoder(columns, RecordType::kSequenceExample);
  for (int n = 0; n < 50; ++n) {
    ASSERT_TRUE(clean->Add(Bytes(record(n, 1))).ok());
    // The last column refuses 1,000 when all others have taken their values.
    ASSERT_FALSE(dirty->Add(Bytes(record(n + 3, 1'000))).ok());
    ASSERT_TRUE(dirty->Add(Bytes(record(n, 1))).ok());
    ASSERT_FALSE(dirty->Add(Bytes(record(n * 4, 1'000))).ok());
  }
  EXPECT_EQ(Taken(*dirty), Taken(*clean));
}

TEST(ExampleDecoderTest, TakesRecordsAsTheyAre) {
  EXPECT_THAT(Rows({"r:binary"}, {"one", ""}, RecordType::kByteArray), ElementsAre("'one'", "''"));
  EXPECT_THAT(Failure("r:string", "\xff", RecordType::kByteArray), HasSubstr("not UTF-8"));
  const auto none = Decoder({}, RecordType::kByteArray);
  EXPECT_TRUE(none->Add(Bytes("one")).ok());
  EXPECT_EQ(none->rows(), 1U);
  for (const auto& columns :
       {std::vector<std::string>{"r:[binary]"}, {"r:int64"}, {"r:binary", "s:binary"}}) {
    EXPECT_THAT(
        ExampleDecoder::Create(SchemaOf(columns), RecordType::kByteArray).status().ToString(),
        HasSubstr("one column of binary or string"));
  }
}

TEST(ExampleDecoderTest, BatchesAreIndependent) {
  const auto decoder =
      Decoder({"n:int64", "s:[string]", "l:[[int64]]"}, RecordType::kSequenceExample);
  for (int batch = 0; batch < 3; ++batch) {
    ASSERT_TRUE(decoder->AddNulls().ok());
    ASSERT_TRUE(
        decoder->Add(Bytes(ExampleOf({{"n", Int64Feature({batch})}, {"s", BytesFeature({"x"})}})))
            .ok());
    EXPECT_THAT(Taken(*decoder),
                ElementsAre("null null null", fmt::format("{} ['x'] null", batch)));
    EXPECT_EQ(decoder->rows(), 0U);
    EXPECT_TRUE(Taken(*decoder).empty());
  }
  EXPECT_THAT(Decoder({"n:int64!"})->AddNulls().message(), HasSubstr("'n' is not nullable"));
}

TEST(ExampleDecoderTest, SurvivesEveryPairOfFlippedBits) {
  const std::vector<std::string> columns = {"i:[int64]",  "f:[float]",       "b:[string]",
                                            "empty:int8", "none:[int64]",    "steps:[[float]]",
                                            "id:int32",   "words:[[string]]"};
  for (std::string record : {GoldenExample(), GoldenSequenceExample()}) {
    const auto decoder = Decoder(columns, RecordType::kSequenceExample);
    std::mt19937 random(11);
    const std::size_t bits = record.size() * 8;
    const auto flip = [&](std::size_t bit) {
      record[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    };
    std::size_t refused = 0;
    const auto check = [&] {
      // Exactly as long as it is, so that AddressSanitizer sees a step outside.
      const std::vector<char> copy(record.begin(), record.end());
      if (!decoder->Add(std::as_bytes(std::span(copy))).ok()) ++refused;
    };
    for (std::size_t first = 0; first < bits; ++first) {
      flip(first);
      check();
      for (int i = 0; i < 20; ++i) {
        const std::size_t second = random() % bits;
        flip(second);
        check();
        flip(second);
      }
      flip(first);
    }
    EXPECT_GT(refused, bits);
    EXPECT_EQ(Taken(*decoder).size() + refused, bits * 21);
  }
}

}  // namespace
}  // namespace tfos::records
