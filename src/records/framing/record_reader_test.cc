#include "records/framing/record_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "records/framing/framing.h"
#include "records/framing/test_records.h"

namespace tfos::records {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// What reading all of a file gave.
struct Outcome {
  std::vector<std::string> records;
  std::vector<std::string> errors;
  bool lost = false;
};

Outcome ReadAll(RecordReader& reader) {
  Outcome outcome;
  while (true) {
    const auto record = reader.Next();
    if (!record.ok()) {
      outcome.errors.push_back(record.status().ToString());
      outcome.lost = reader.lost();
      if (outcome.lost) return outcome;
    } else if (!*record) {
      return outcome;
    } else {
      outcome.records.push_back(Text((*record)->data));
    }
  }
}

Outcome ReadAll(std::string_view file, RecordReaderOptions options = {}) {
  RecordReader reader(std::make_unique<MemorySource>("memory", Bytes(file)), options);
  return ReadAll(reader);
}

const std::vector<std::string> kRecords = {"hello", "", std::string(100, 'x'), "end"};

TEST(RecordReaderTest, ValidationIsKnownWhateverTheCase) {
  EXPECT_EQ(ValidationFrom("none").value(), Validation::kNone);
  EXPECT_EQ(ValidationFrom("Lengths").value(), Validation::kLengths);
  EXPECT_EQ(ValidationFrom("FULL").value(), Validation::kFull);
  for (const char* name : {"", "ful", "fulls", "half"}) {
    EXPECT_EQ(ValidationFrom(name).status().kind(), ErrorKind::kBadInput) << name;
  }
}

TEST(RecordReaderTest, ReadsWhatTensorFlowWrote) {
  // tf.io.TFRecordWriter's file of the record b"hello".
  const std::string golden = FromHex("0500000000000000eab2043e68656c6c6fbb1f1c19");
  EXPECT_EQ(FileOf({"hello"}), golden);
  EXPECT_THAT(ReadAll(golden).records, ElementsAre("hello"));
}

TEST(RecordReaderTest, GivesBackWhatWasWritten) {
  const Outcome outcome = ReadAll(FileOf(kRecords));
  EXPECT_EQ(outcome.records, kRecords);
  EXPECT_TRUE(outcome.errors.empty());
  EXPECT_TRUE(ReadAll("").records.empty());
}

TEST(RecordReaderTest, WhateverTheBlocksAndReadsAre) {
  std::vector<std::string> records;
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) records.emplace_back(random() % 300, static_cast<char>(i));
  records.emplace_back(100'000, 'l');
  records.emplace_back("last");
  const std::string file = FileOf(records);
  for (const std::size_t at_once : {1U, 7U, 1'000U, 1'000'000U}) {
    for (const std::size_t block : {1U, 16U, 300U, 100'000U}) {
      RecordReader reader(std::make_unique<TrickleSource>(file, at_once), {.block_bytes = block});
      EXPECT_EQ(ReadAll(reader).records, records) << at_once << ", " << block;
    }
  }
}

TEST(RecordReaderTest, SaysWhereEachRecordLies) {
  const std::string file = FileOf(kRecords);
  RecordReader reader(std::make_unique<MemorySource>("memory", Bytes(file)));
  std::vector<std::uint64_t> offsets;
  while (true) {
    const auto record = reader.Next();
    ASSERT_TRUE(record.ok());
    if (!*record) break;
    EXPECT_EQ((*record)->number, offsets.size());
    offsets.push_back((*record)->offset);
  }
  EXPECT_THAT(offsets, ElementsAre(0, 21, 37, 153));
  EXPECT_EQ(reader.offset(), file.size());
}

TEST(RecordReaderTest, ReadsAPart) {
  const std::string file = FileOf(kRecords);
  EXPECT_THAT(ReadAll(file.substr(21), {.begin_offset = 21, .end_offset = 153}).records,
              ElementsAre("", kRecords[2]));
  EXPECT_THAT(ReadAll(file, {.end_offset = 22}).records, ElementsAre("hello", ""));
}

TEST(RecordReaderTest, GoesOnBehindDamagedData) {
  std::string file = FileOf(kRecords);
  file[14] ^= 1;
  const Outcome outcome = ReadAll(file);
  EXPECT_THAT(outcome.records, ElementsAre("", kRecords[2], "end"));
  EXPECT_FALSE(outcome.lost);
  EXPECT_THAT(outcome.errors, ElementsAre(HasSubstr("memory: record 0 at offset 0: the CRC of its "
                                                    "data is wrong")));
  EXPECT_EQ(ReadAll(file, {.validation = Validation::kLengths}).records.size(), 4U);
}

TEST(RecordReaderTest, StopsAtADamagedLength) {
  std::string file = FileOf(kRecords);
  file[22] ^= 1;
  RecordReader reader(std::make_unique<MemorySource>("f.tfrecord", Bytes(file)));
  const Outcome outcome = ReadAll(reader);
  EXPECT_THAT(outcome.records, ElementsAre("hello"));
  EXPECT_TRUE(outcome.lost);
  EXPECT_THAT(
      outcome.errors,
      ElementsAre(AllOf(HasSubstr("f.tfrecord: record 1 at offset 21: the CRC of its length"),
                        HasSubstr("can't be read"))));
  EXPECT_FALSE(reader.Next().ok());
}

TEST(RecordReaderTest, NamesEveryTruncation) {
  const std::string file = FileOf({"hello", "you"});
  for (std::size_t length = 0; length < file.size(); ++length) {
    const Outcome outcome = ReadAll(file.substr(0, length));
    EXPECT_EQ(outcome.lost, length != 0 && length != 21) << length;
    EXPECT_EQ(outcome.records.size(), length < 21 ? 0U : 1U) << length;
    if (outcome.lost) {
      EXPECT_THAT(outcome.errors[0],
                  HasSubstr(length < 21 ? "record 0 at offset 0: the file ends"
                                        : "record 1 at offset 21: the file ends"));
    }
  }
}

TEST(RecordReaderTest, RefusesWhatIsLongerThanTheLimit) {
  const Outcome outcome = ReadAll(FileOf(kRecords), {.max_record_bytes = 99});
  EXPECT_THAT(outcome.records, ElementsAre("hello", ""));
  EXPECT_THAT(outcome.errors[0], HasSubstr("its length of 100 bytes is over the limit of 99"));
}

TEST(RecordReaderTest, AWrongLengthThatNobodyCheckedCostsNoMemory) {
  std::string file = FileOf({"hello"});
  Store(kLongestRecord, reinterpret_cast<std::byte*>(file.data()));
  const RecordReaderOptions options = {.validation = Validation::kNone,
                                       .max_record_bytes = kLongestRecord};
  const Outcome outcome = ReadAll(file, options);
  EXPECT_TRUE(outcome.lost);
  EXPECT_THAT(outcome.errors[0], HasSubstr("it was cut off"));
}

TEST(RecordReaderTest, ALengthNearTheLargestNumberIsRefusedWhateverTheLimit) {
  std::string file(12, '\xff');
  for (const std::uint64_t length :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 15, kLongestRecord + 1}) {
    std::memcpy(file.data(), &length, sizeof(length));
    const Outcome outcome =
        ReadAll(file + "0123456789012345",
                {.validation = Validation::kNone, .max_record_bytes = ~std::uint64_t{0}});
    EXPECT_TRUE(outcome.lost);
    EXPECT_THAT(outcome.errors[0], HasSubstr("is over the limit"));
  }
}

TEST(RecordReaderTest, SaysThatAFileLooksCompressed) {
  EXPECT_THAT(ReadAll(FromHex("1f8b0800000000000003abcdef01")).errors,
              ElementsAre(HasSubstr("begins like GZIP: read it with compression 'gzip'")));
  EXPECT_THAT(ReadAll(FromHex("789c0800000000000003abcdef01")).errors,
              ElementsAre(HasSubstr("begins like ZLIB: read it with compression 'zlib'")));
}

TEST(RecordReaderTest, SurvivesEveryPairOfFlippedBits) {
  const std::vector<std::string> records = {"hello", "", "world"};
  std::string file = FileOf(records);
  const auto flip = [&](std::size_t bit) { file[bit / 8] ^= static_cast<char>(1 << (bit % 8)); };
  for (std::size_t first = 0; first < file.size() * 8; ++first) {
    flip(first);
    const Outcome one = ReadAll(file);
    ASSERT_EQ(one.errors.size(), 1U) << first;
    ASSERT_LT(one.records.size(), records.size());
    for (std::size_t second = first + 1; second < file.size() * 8; second += 5) {
      flip(second);
      // Both CRCs find every two wrong bits in what they guard.
      ASSERT_FALSE(ReadAll(file).errors.empty()) << first << ", " << second;
      ReadAll(file, {.validation = Validation::kNone});
      flip(second);
    }
    flip(first);
  }
}

TEST(RecordReaderTest, ReadsFiles) {
  char path[] = "/tmp/tfos-records-XXXXXX";
  const UniqueFd made(::mkstemp(path));
  ASSERT_TRUE(made.valid());
  auto sink = FileSink::Open(path);
  ASSERT_TRUE(sink.ok()) << sink.status().ToString();
  RecordWriter writer(std::move(*sink));
  const std::string large(3'000'000, 'y');
  for (const std::string& record : {std::string("first"), large, std::string("third")}) {
    ASSERT_TRUE(writer.Write(Bytes(record)).ok());
  }
  ASSERT_TRUE(writer.Close().ok());
  auto source = FileSource::Open(path, 21);
  ASSERT_TRUE(source.ok());
  RecordReader reader(std::move(*source), {.begin_offset = 21, .first_record = 1});
  EXPECT_EQ(reader.Next().value()->data.size(), large.size());
  EXPECT_EQ(Text(reader.Next().value()->data), "third");
  EXPECT_FALSE(reader.Next().value());
  ::unlink(path);
  EXPECT_THAT(FileSource::Open(path).status().ToString(), HasSubstr(path));
}

/// A disk that is full after some bytes.
class FullSink : public ByteSink {
 public:
  Status Write(std::span<const std::byte>) override {
    return {ErrorKind::kRetryLater, "no space left"};
  }
  Status Close() override { return Status::Ok(); }
  const std::string& name() const override { return name_; }

 private:
  std::string name_ = "full";
};

TEST(RecordWriterTest, TheFirstFailureStays) {
  RecordWriter writer(std::make_unique<FullSink>());
  EXPECT_TRUE(writer.Write(Bytes("gathered")).ok());
  EXPECT_FALSE(writer.Write(Bytes(std::string(1'000'000, 'x'))).ok());
  EXPECT_FALSE(writer.Write(Bytes("x")).ok());
  EXPECT_FALSE(writer.Close().ok());
}

}  // namespace
}  // namespace tfos::records
