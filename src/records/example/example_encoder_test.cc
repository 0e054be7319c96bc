#include "records/example/example_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "records/example/example_decoder.h"
#include "records/example/test_examples.h"
#include "records/example/value_source.h"

namespace tfos::records {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The columns that reading `records` gives.
void Decode(const std::vector<std::string>& columns, const std::vector<std::string>& records,
            RecordType type, Exported& table) {
  auto decoder = ExampleDecoder::Create(SchemaOf(columns), type);
  ASSERT_TRUE(decoder.ok()) << decoder.status().ToString();
  for (const std::string& record : records) {
    const Status added = (*decoder)->Add(Bytes(record));
    ASSERT_TRUE(added.ok()) << added.ToString();
  }
  (*decoder)->Take(table.schema, table.array);
}

std::vector<std::string> Encode(const Exported& table, RecordType type = RecordType::kExample) {
  auto encoder = ExampleEncoder::Open(table.schema, table.array, type);
  EXPECT_TRUE(encoder.ok()) << encoder.status().ToString();
  std::vector<std::string> records;
  for (std::size_t row = 0; row < (*encoder)->rows(); ++row) {
    const auto record = (*encoder)->Encode(row);
    EXPECT_TRUE(record.ok()) << record.status().ToString();
    if (record.ok()) records.push_back(Text(*record));
  }
  return records;
}

TEST(ExampleEncoderTest, VarintsHaveTheLengthThatIsMeasured) {
  std::byte bytes[16];
  for (int bit = 0; bit < 64; ++bit) {
    for (const std::uint64_t value :
         {(std::uint64_t{1} << bit) - 1, std::uint64_t{1} << bit, ~std::uint64_t{0} >> bit}) {
      EXPECT_EQ(static_cast<std::size_t>(WriteVarint(value, bytes) - bytes), VarintBytes(value));
    }
  }
}

TEST(ExampleEncoderTest, WritesWhatTensorFlowWrites) {
  Exported table;
  // "none" is a null here, which leaves its key out.
  Decode({"i:[int64]", "b:[binary]", "f:[float]", "empty:[int64]"}, {GoldenExample()},
         RecordType::kExample, table);
  std::string expected = GoldenExample();
  expected = expected.substr(0, expected.size() - 10);
  expected[1] = static_cast<char>(expected[1] - 10);
  EXPECT_THAT(Encode(table), ElementsAre(expected));
}

TEST(ExampleEncoderTest, WritesSequenceExamples) {
  Exported table;
  Decode({"words:[[string]]", "id:int64", "none:[[int64]]", "steps:[[float]]"},
         {GoldenSequenceExample()}, RecordType::kSequenceExample, table);
  EXPECT_THAT(Encode(table, RecordType::kSequenceExample), ElementsAre(GoldenSequenceExample()));
  EXPECT_THAT(
      ExampleEncoder::Open(table.schema, table.array, RecordType::kExample).status().message(),
      HasSubstr("only a SequenceExample has"));
}

TEST(ExampleEncoderTest, NothingAtAll) {
  Exported table;
  Decode({"n:int64"}, {ExampleOf({}), ""}, RecordType::kExample, table);
  EXPECT_THAT(Encode(table), ElementsAre(FromHex("0a00"), FromHex("0a00")));
  EXPECT_THAT(Encode(table, RecordType::kSequenceExample),
              ElementsAre(FromHex("0a001200"), FromHex("0a001200")));
}

/// A record of random content for the columns of kRandomColumns.
std::string RandomRecord(std::mt19937& random) {
  const auto some = [&](std::size_t most) { return random() % (most + 1); };
  std::vector<std::int64_t> integers(some(200));
  for (auto& value : integers) {
    value = static_cast<std::int64_t>((std::uint64_t{random()} << 32 | random()) >> some(63)) *
            (some(1) == 0 ? 1 : -1);
  }
  std::vector<float> floats(some(50));
  for (auto& value : floats) value = static_cast<float>(random()) / 3;
  std::vector<std::string> strings(some(5));
  for (auto& value : strings) value.assign(some(300), static_cast<char>('a' + some(20)));
  // In the order of their keys, as the encoder writes them.
  Entries features;
  if (some(4) != 0) features.emplace_back("bools", Int64Feature({some(1) == 0, 1, 0}));
  if (some(4) != 0)
    features.emplace_back("byte", Int64Feature({static_cast<std::int8_t>(random())}));
  features.emplace_back("doubles", FloatFeature(floats));
  if (some(4) != 0) features.emplace_back("flag", Int64Feature({some(1) == 0}));
  if (some(4) != 0) features.emplace_back("floats", FloatFeature({1, 2, 3.5}));
  features.emplace_back("integers", Int64Feature(integers));
  if (some(4) != 0) features.emplace_back("text", BytesFeature({"\xC3\xA4"}));
  features.emplace_back("words", BytesFeature(strings));
  std::string inner;
  for (std::size_t i = some(3); i > 0; --i) inner += Delimited(1, Int64Feature({1, -5}));
  return Delimited(1, MapOf(features)) + Delimited(2, MapOf({{"steps", inner}}));
}

const std::vector<std::string> kRandomColumns = {
    "text:string",    "words:[binary]", "integers:[int64]", "floats:[float;3]", "flag:bool",
    "bools:[bool;3]", "byte:int8",      "doubles:[double]", "steps:[[int16]]"};

TEST(ExampleEncoderTest, WritesAgainWhatWasRead) {
  std::mt19937 random(17);
  std::vector<std::string> records;
  for (int i = 0; i < 500; ++i) records.push_back(RandomRecord(random));
  Exported table;
  Decode(kRandomColumns, records, RecordType::kSequenceExample, table);
  EXPECT_EQ(Encode(table, RecordType::kSequenceExample), records);
}

TEST(ExampleEncoderTest, AllRecordsAtOnce) {
  std::mt19937 random(19);
  std::vector<std::string> records;
  for (int i = 0; i < 40; ++i) records.push_back(RandomRecord(random));
  Exported table;
  Decode(kRandomColumns, records, RecordType::kSequenceExample, table);
  auto encoder = ExampleEncoder::Open(table.schema, table.array, RecordType::kSequenceExample);
  ASSERT_TRUE(encoder.ok());
  Exported all;
  ASSERT_TRUE((*encoder)->EncodeAll(all.schema, all.array).ok());
  ASSERT_EQ(all.array.length, 40);
  for (std::int64_t i = 0; i < all.array.length; ++i) {
    EXPECT_EQ(Show(all.schema, all.array, i), "'" + records[static_cast<std::size_t>(i)] + "'");
  }
}

TEST(ExampleEncoderTest, ReadsSlices) {
  std::mt19937 random(18);
  std::vector<std::string> records;
  for (int i = 0; i < 40; ++i) records.push_back(RandomRecord(random));
  Exported table;
  Decode(kRandomColumns, records, RecordType::kSequenceExample, table);
  // The batch and each column have an offset: both count.
  table.array.offset = 2;
  table.array.length = 30;
  for (std::int64_t i = 0; i < table.array.n_children; ++i) {
    table.array.children[i]->offset = 5;
    table.array.children[i]->length = 35;
  }
  EXPECT_EQ(Encode(table, RecordType::kSequenceExample),
            std::vector<std::string>(records.begin() + 7, records.begin() + 37));
}

TEST(ExampleEncoderTest, CountsTheRowsOfEarlierBatches) {
  const std::string record = ExampleOf({{"k", Int64Feature({1, 2})}});
  Exported table;
  Decode({"k:[int64]"}, {record, record, record}, RecordType::kExample, table);
  static const std::uint8_t validity = 0b011111;  // The last row has the null.
  ArrowArray& values = *table.array.children[0]->children[0];
  values.buffers[0] = &validity;
  values.null_count = 1;
  table.array.offset = 1;
  table.array.length = 2;
  auto encoder = ExampleEncoder::Open(table.schema, table.array, RecordType::kExample, 5'000);
  ASSERT_TRUE(encoder.ok()) << encoder.status().ToString();
  EXPECT_TRUE((*encoder)->Encode(0).ok());
  EXPECT_THAT((*encoder)->Encode(1).status().ToString(),
              HasSubstr("column 'k': row 5001 has a null inside a list"));
}

TEST(ExampleEncoderTest, SaysWhatCannotBeWritten) {
  const auto failure = [](const std::vector<std::string>& columns, auto change) {
    Exported table;
    Decode(columns, {ExampleOf({{"k", Int64Feature({1, 2})}})}, RecordType::kExample, table);
    change(table);
    auto encoder = ExampleEncoder::Open(table.schema, table.array, RecordType::kExample);
    if (!encoder.ok()) return encoder.status().ToString();
    const auto record = (*encoder)->Encode(0);
    return record.ok() ? std::string() : record.status().ToString();
  };
  EXPECT_THAT(
      failure({"k:[int64]"},
              [](Exported& table) { table.schema.children[0]->children[0]->format = "tsu:"; }),
      HasSubstr("column 'k', a part of the Arrow type 'tsu:': tf.Example has no"));
  EXPECT_THAT(failure({"k:[int64]"},
                      [](Exported& table) {
                        static const std::uint8_t validity = 1;
                        ArrowArray& values = *table.array.children[0]->children[0];
                        values.buffers[0] = &validity;
                        values.null_count = 1;
                      }),
              HasSubstr("column 'k': row 0 has a null inside a list"));
  EXPECT_THAT(failure({"k:[int64]"},
                      [](Exported& table) { table.array.children[0]->children[0]->length = 1; }),
              HasSubstr("an offset is 2 where 1 elements are"));
  EXPECT_THAT(failure({"k:[int64;2]"},
                      [](Exported& table) { table.array.children[0]->children[0]->length = 1; }),
              HasSubstr("its lists do not lie on its values"));
  EXPECT_THAT(failure({"k:[int64]"}, [](Exported& table) { table.array.length = 2; }),
              HasSubstr("column 'k': 1 values where 2 are needed"));
  EXPECT_THAT(failure({"k:[int64]"}, [](Exported& table) { table.schema.format = "l"; }),
              HasSubstr("not a record batch"));
}

}  // namespace
}  // namespace tfos::records
