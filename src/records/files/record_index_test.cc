#include "records/files/record_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "records/framing/test_records.h"

namespace tfos::records {
namespace {

using testing::HasSubstr;

RecordIndex Sample() {
  return {.file_bytes = 10'000,
          .records = 50,
          .fingerprint = 77,
          .entries = {{0, 0}, {1'000, 5}, {2'100, 11}, {9'000, 40}}};
}

class RecordIndexTest : public testing::Test {
 protected:
  RecordIndexTest() {
    char path[] = "/tmp/tfos-index-XXXXXX";
    directory_ = ::mkdtemp(path);
  }
  ~RecordIndexTest() override { std::filesystem::remove_all(directory_); }

  std::string Write(const std::string& content) const {
    const std::string path = directory_ / "f.tfrecord";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::filesystem::path directory_;
};

std::vector<std::string> SomeRecords(int count) {
  std::vector<std::string> records;
  for (int i = 0; i < count; ++i) {
    records.emplace_back(static_cast<std::size_t>(i % 90), static_cast<char>('a' + i % 26));
  }
  return records;
}

TEST_F(RecordIndexTest, GivesBackWhatWasWritten) {
  const std::string bytes = Sample().Serialize();
  const auto index = RecordIndex::Parse(Bytes(bytes));
  ASSERT_TRUE(index.ok()) << index.status().ToString();
  EXPECT_EQ(index->Serialize(), bytes);
  EXPECT_EQ(index->entries[2].record, 11U);
}

TEST_F(RecordIndexTest, RefusesEveryTruncationAndFlippedBit) {
  std::string bytes = Sample().Serialize();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(RecordIndex::Parse(Bytes(bytes.substr(0, length))).ok());
  }
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_FALSE(RecordIndex::Parse(Bytes(bytes)).ok()) << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
  }
}

TEST_F(RecordIndexTest, RefusesWhatContradictsItself) {
  const auto refused = [](auto change) {
    RecordIndex index = Sample();
    change(index);
    return !RecordIndex::Parse(Bytes(index.Serialize())).ok();
  };
  EXPECT_TRUE(refused([](RecordIndex& index) { index.entries[0].offset = 1; }));
  EXPECT_TRUE(refused([](RecordIndex& index) { index.entries[2].offset = 1'000; }));
  EXPECT_TRUE(refused([](RecordIndex& index) { index.entries[3].record = 11; }));
  EXPECT_TRUE(refused([](RecordIndex& index) { index.entries[3].record = 50; }));
  EXPECT_TRUE(refused([](RecordIndex& index) { index.file_bytes = 9'000; }));
  EXPECT_TRUE(refused([](RecordIndex& index) { index.entries.clear(); }));
  std::string other = Sample().Serialize();
  other[4] = 2;
  EXPECT_THAT(RecordIndex::Parse(Bytes(other)).status().message(),
              HasSubstr("version 2; this build reads version 1"));
}

TEST_F(RecordIndexTest, PartsTogetherAreTheFile) {
  const std::vector<std::string> records = SomeRecords(500);
  const std::string path = Write(FileOf(records));
  for (const std::uint64_t interval : {1U, 100U, 5'000U, 1'000'000U}) {
    const auto made = IndexFile(path, interval);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    ASSERT_TRUE(SaveIndex(*made, path).ok());
    const auto index = LoadIndex(path);
    ASSERT_TRUE(index.ok()) << index.status().ToString();
    EXPECT_EQ(index->records, records.size());
    for (const std::uint64_t part_bytes : {1U, 3'000U, 100'000U}) {
      std::vector<std::string> read;
      for (const FilePart& part : index->Split(part_bytes)) {
        EXPECT_EQ(part.first_record, read.size());
        RecordReader reader(FileSource::Open(path, part.begin_offset).value(),
                            {.begin_offset = part.begin_offset, .end_offset = part.end_offset});
        while (const auto record = reader.Next().value()) read.push_back(Text(record->data));
      }
      EXPECT_EQ(read, records) << interval << ", " << part_bytes;
    }
  }
}

TEST_F(RecordIndexTest, NoticesThatTheFileIsAnother) {
  const std::string content = FileOf(SomeRecords(300));
  const std::string path = Write(content);
  ASSERT_TRUE(SaveIndex(IndexFile(path).value(), path).ok());
  ASSERT_TRUE(LoadIndex(path).ok());
  for (const std::size_t changed : {std::size_t{0}, content.size() - 1}) {
    std::string other = content;
    other[changed] ^= 1;
    Write(other);
    EXPECT_THAT(LoadIndex(path).status().ToString(), HasSubstr("another content"));
  }
  Write(content + FileOf({"more"}));
  EXPECT_THAT(LoadIndex(path).status().ToString(), HasSubstr("make it again"));
  std::filesystem::remove(IndexPathOf(path));
  EXPECT_THAT(LoadIndex(path).status().ToString(), HasSubstr("f.tfrecord.tfindex"));
}

TEST_F(RecordIndexTest, FilesWithoutRecordsAndDamagedOnes) {
  const std::string path = Write("");
  ASSERT_TRUE(SaveIndex(IndexFile(path).value(), path).ok());
  EXPECT_TRUE(LoadIndex(path).value().Split(1).empty());
  std::string damaged = FileOf({"hello"});
  damaged[14] ^= 1;
  Write(damaged);
  EXPECT_THAT(IndexFile(path).status().ToString(), HasSubstr("the CRC of its data"));
}

}  // namespace
}  // namespace tfos::records
