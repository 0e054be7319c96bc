#include "records/files/example_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "records/example/test_examples.h"

namespace tfos::records {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Outcome {
  std::vector<std::vector<std::string>> batches;
  std::string error;
  ReadCounts counts;
};

Outcome ReadAll(const std::string& file, ExampleReaderOptions options,
                const std::vector<std::string>& columns = {"n:int32"}) {
  auto decoder = ExampleDecoder::Create(SchemaOf(columns), RecordType::kExample);
  EXPECT_TRUE(decoder.ok());
  ExampleReader reader(
      std::make_unique<RecordReader>(std::make_unique<MemorySource>("f.tfrecord", Bytes(file))),
      std::move(*decoder), options);
  Outcome outcome;
  while (true) {
    Exported table;
    const auto more = reader.Next(table.schema, table.array);
    if (!more.ok()) {
      outcome.error = more.status().ToString();
      EXPECT_FALSE(reader.Next(table.schema, table.array).ok());
    }
    if (!more.ok() || !*more) break;
    outcome.batches.push_back(ShowRows(table));
  }
  outcome.counts = reader.counts();
  return outcome;
}

std::string Number(std::int64_t n) { return ExampleOf({{"n", Int64Feature({n})}}); }

/// Record 1 has a wrong CRC, record 2 isn't an example, record 3 does not fit.
std::string DamagedFile() {
  std::string file =
      FileOf({Number(0), Number(1), "\x09", Number(std::int64_t{1} << 40), Number(4)});
  file[FileOf({Number(0)}).size() + 14] ^= 1;
  return file;
}

TEST(ExampleReaderTest, KeepsBadRecordsWhereAsked) {
  auto decoder = ExampleDecoder::Create(SchemaOf({"n:int32"}), RecordType::kExample);
  ASSERT_TRUE(decoder.ok());
  const std::string file = DamagedFile();
  ExampleReader reader(
      std::make_unique<RecordReader>(std::make_unique<MemorySource>("f.tfrecord", Bytes(file))),
      std::move(*decoder),
      {.bad_records = BadRecords::kPermissive, .keep_bad = true, .batch_rows = 3});
  std::vector<std::string> kept;
  for (int batch = 0; batch < 2; ++batch) {
    Exported table;
    ASSERT_TRUE(reader.Next(table.schema, table.array).ok());
    for (const BadRecord& bad : reader.TakeBad()) {
      kept.push_back(std::to_string(batch) + "/" + std::to_string(bad.row) + " " + bad.data);
    }
    EXPECT_TRUE(reader.TakeBad().empty());
  }
  std::string damaged = Number(1);
  damaged[2] ^= 1;  // Byte 14 of the record, behind the header of 12.
  EXPECT_THAT(kept,
              ElementsAre("0/1 " + damaged, "0/2 \x09", "1/0 " + Number(std::int64_t{1} << 40)));
}

TEST(ExampleReaderTest, CutsBatches) {
  std::vector<std::string> records;
  for (int i = 0; i < 5; ++i) records.push_back(Number(i));
  EXPECT_THAT(ReadAll(FileOf(records), {.batch_rows = 2}).batches,
              ElementsAre(ElementsAre("0", "1"), ElementsAre("2", "3"), ElementsAre("4")));
  EXPECT_EQ(ReadAll(FileOf(records), {.batch_bytes = 1}).batches.size(), 5U);
  EXPECT_EQ(ReadAll(FileOf(records), {}).batches.size(), 1U);
  EXPECT_TRUE(ReadAll("", {}).batches.empty());
}

TEST(ExampleReaderTest, FailsFast) {
  const Outcome outcome = ReadAll(DamagedFile(), {});
  EXPECT_THAT(outcome.error, HasSubstr("f.tfrecord: record 1 at offset"));
  EXPECT_THAT(outcome.error, HasSubstr("CRC of its data"));
}

TEST(ExampleReaderTest, DropsMalformedRecords) {
  const Outcome outcome = ReadAll(DamagedFile(), {.bad_records = BadRecords::kDropMalformed});
  EXPECT_THAT(outcome.batches, ElementsAre(ElementsAre("0", "4")));
  EXPECT_EQ(outcome.counts.records, 2U);
  EXPECT_EQ(outcome.counts.bad_records, 3U);
  EXPECT_FALSE(outcome.counts.lost);
  EXPECT_THAT(outcome.counts.first_problem, HasSubstr("record 1 at offset"));
}

TEST(ExampleReaderTest, MakesNullsOfMalformedRecords) {
  const Outcome outcome = ReadAll(DamagedFile(), {.bad_records = BadRecords::kPermissive});
  EXPECT_THAT(outcome.batches, ElementsAre(ElementsAre("0", "null", "null", "null", "4")));
  const Outcome none =
      ReadAll(DamagedFile(), {.bad_records = BadRecords::kPermissive}, {"n:int32!"});
  EXPECT_THAT(none.error, HasSubstr("'n' is not nullable"));
}

TEST(ExampleReaderTest, CountsWhatIsLost) {
  const std::string whole = FileOf({Number(0), Number(1)});
  const std::string cut = whole.substr(0, whole.size() - 1);
  for (const BadRecords mode : {BadRecords::kDropMalformed, BadRecords::kPermissive}) {
    const Outcome outcome = ReadAll(cut, {.bad_records = mode});
    EXPECT_THAT(outcome.batches, ElementsAre(ElementsAre("0")));
    EXPECT_TRUE(outcome.counts.lost);
    EXPECT_THAT(outcome.counts.first_problem, HasSubstr("it was cut off"));
  }
  EXPECT_THAT(ReadAll(cut, {}).error, HasSubstr("record 1 at offset"));
}

TEST(ExampleReaderTest, Names) {
  EXPECT_EQ(BadRecordsFrom("permissive").value(), BadRecords::kPermissive);
  EXPECT_THAT(BadRecordsFrom("other").status().message(), HasSubstr("mode must be failfast,"));
}

}  // namespace
}  // namespace tfos::records
