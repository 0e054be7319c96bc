#include "records/files/index_builder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "records/framing/record_writer.h"
#include "records/framing/test_records.h"

namespace tfos::records {
namespace {

/// A file of records of growing length, written through a builder.
struct Written {
  explicit Written(int count, std::uint64_t interval, std::size_t most = kMostIndexEntries) {
    auto sink = std::make_unique<IndexBuilder>(std::make_unique<MemorySink>("memory", file),
                                               interval, most);
    IndexBuilder& builder = *sink;
    RecordWriter writer(std::move(sink));
    for (int i = 0; i < count; ++i) {
      builder.AddRecord(writer.offset(), writer.records());
      EXPECT_TRUE(writer.Write(Bytes(std::string(static_cast<std::size_t>(i % 700), 'x'))).ok());
    }
    EXPECT_TRUE(writer.Close().ok());
    index = builder.Finish(writer.records());
  }

  std::string file;
  RecordIndex index;
};

/// What reading the file anew gives.
std::string IndexOf(const std::string& content, std::uint64_t interval) {
  char directory[] = "/tmp/tfos-builder-XXXXXX";
  const std::filesystem::path path = std::filesystem::path(::mkdtemp(directory)) / "f";
  auto sink = FileSink::Open(path).value();
  EXPECT_TRUE(sink->Write(Bytes(content)).ok() && sink->Close().ok());
  const auto index = IndexFile(path, interval);
  std::filesystem::remove_all(directory);
  return index.ok() ? index->Serialize() : index.status().ToString();
}

TEST(IndexBuilderTest, MakesTheIndexThatReadingTheFileMakes) {
  for (const int count : {0, 1, 5, 3'000}) {
    const Written written(count, 1'000);
    EXPECT_EQ(written.index.Serialize(), IndexOf(written.file, 1'000)) << count;
  }
}

TEST(IndexBuilderTest, KeepsEverySecondEntryWhereThereAreTooMany) {
  const Written written(3'000, 100, 64);
  EXPECT_LE(written.index.entries.size(), 64U);
  EXPECT_GT(written.index.entries.size(), 30U);
  EXPECT_TRUE(RecordIndex::Parse(Bytes(written.index.Serialize())).ok());
}

TEST(IndexBuilderTest, PartsThatAdjoinGiveEveryRecordOnce) {
  const Written written(2'000, 1'000);
  for (const std::uint64_t part :
       {std::uint64_t{1}, std::uint64_t{777}, std::uint64_t{50'000}, std::uint64_t{10'000'000}}) {
    std::uint64_t next_offset = 0;
    std::uint64_t next_record = 0;
    for (std::uint64_t begin = 0; begin < written.file.size(); begin += part) {
      const FilePart found = written.index.Within(begin, begin + part);
      if (found.begin_offset == found.end_offset) continue;
      EXPECT_EQ(found.begin_offset, next_offset);
      EXPECT_EQ(found.first_record, next_record);
      RecordReader reader(
          std::make_unique<MemorySource>("memory", Bytes(written.file).subspan(found.begin_offset)),
          {.begin_offset = found.begin_offset,
           .end_offset = found.end_offset,
           .first_record = found.first_record});
      while (true) {
        const auto record = reader.Next();
        ASSERT_TRUE(record.ok()) << record.status().ToString();
        if (!*record) break;
      }
      next_offset = found.end_offset;
      next_record = reader.number();
    }
    EXPECT_EQ(next_offset, written.file.size());
    EXPECT_EQ(next_record, 2'000U);
  }
}

}  // namespace
}  // namespace tfos::records
