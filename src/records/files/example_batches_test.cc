#include "records/files/example_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "records/example/test_examples.h"
#include "testing/temporary_folder.h"

namespace tfos::records {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Files of records whose only key, n, has these numbers; files go when the test ends.
class ExampleBatchesTest : public ::testing::Test {
 protected:
  void Add(const std::vector<std::int64_t>& numbers) {
    std::vector<std::string> records;
    for (const std::int64_t n : numbers) records.push_back(ExampleOf({{"n", Int64Feature({n})}}));
    AddFile(FileOf(records));
  }

  void AddFile(const std::string& content) {
    const std::string path = folder_.path() / std::to_string(options_.files.size());
    std::ofstream(path, std::ios::binary) << content;
    options_.files.push_back({.path = path});
  }

  /// The numbers, batch by batch.
  std::vector<std::vector<std::int64_t>> ReadAll() {
    ExampleBatches batches(options_);
    std::vector<std::vector<std::int64_t>> read;
    while (true) {
      const auto next = batches.Next();
      if (!next.ok()) {
        error_ = next.status().ToString();
        EXPECT_FALSE(batches.Next().ok());
      }
      if (!next.ok() || !*next) return read;
      const arrow::Field& column = (*next)->children.at(0);
      const auto* const values = static_cast<const std::int64_t*>(column.buffers.at(1));
      read.emplace_back(values, values + column.length);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values) % 64, 0U);
    }
  }

  const tfos::testing::TemporaryFolder folder_;
  ExampleBatchesOptions options_{.files = {}, .schema = SchemaOf({"n:int64"}), .on_file_end = {}};
  std::string error_;
};

TEST_F(ExampleBatchesTest, BatchesCrossFiles) {
  Add({0, 1, 2});
  Add({});
  Add({3});
  Add({4, 5, 6});
  options_.rows = 2;
  EXPECT_THAT(ReadAll(),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6)));
  options_.drop_remainder = true;
  EXPECT_EQ(ReadAll().size(), 3U);
  options_.rows = 7;
  EXPECT_THAT(ReadAll(), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6)));
  options_.rows = 8;
  EXPECT_THAT(ReadAll(), IsEmpty());
  options_.files.clear();
  EXPECT_THAT(ReadAll(), IsEmpty());
  EXPECT_EQ(error_, "");
}

TEST_F(ExampleBatchesTest, BadRecordsAreCountedForEachFile) {
  Add({0});
  AddFile(FileOf({"\x09", ExampleOf({{"n", Int64Feature({1})}})}) + "cut off");
  Add({2});
  options_.rows = 3;
  EXPECT_THAT(ReadAll(), IsEmpty());
  EXPECT_THAT(error_, HasSubstr("1: record 0 at offset 0"));
  options_.bad_records = BadRecords::kDropMalformed;
  std::vector<std::string> ends;
  options_.on_file_end = [&](const std::string& path, const ReadCounts& counts) {
    ends.push_back(std::filesystem::path(path).filename().string() + " " +
                   std::to_string(counts.records) + " " + std::to_string(counts.bad_records) +
                   (counts.lost ? " lost" : ""));
  };
  EXPECT_THAT(ReadAll(), ElementsAre(ElementsAre(0, 1, 2)));
  EXPECT_THAT(ends, ElementsAre("0 1 0", "1 1 1 lost", "2 1 0"));
}

TEST_F(ExampleBatchesTest, AMissingFileIsAnErrorThatStays) {
  Add({0});
  options_.files.push_back({.path = "/nowhere"});
  EXPECT_THAT(ReadAll(), ElementsAre(ElementsAre(0)));
  EXPECT_THAT(error_, HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace tfos::records
