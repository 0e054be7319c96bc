#include "records/files/record_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "records/example/test_examples.h"

namespace tfos::records {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class RecordFilesTest : public testing::Test {
 protected:
  RecordFilesTest() {
    char path[] = "/tmp/tfos-files-XXXXXX";
    directory_ = ::mkdtemp(path);
  }
  ~RecordFilesTest() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ / name; }

  std::filesystem::path directory_;
};

TEST_F(RecordFilesTest, WritesAndReadsEachCompression) {
  for (const auto compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    auto writer = CreateRecordFile(Path("f"), compression);
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    for (int i = 0; i < 1'000; ++i) {
      ASSERT_TRUE((*writer)->Write(Bytes(std::string(static_cast<std::size_t>(i), 'x'))).ok());
    }
    ASSERT_TRUE((*writer)->Close().ok());
    auto reader = OpenRecordFile(Path("f"), compression);
    ASSERT_TRUE(reader.ok());
    const Survey survey = SurveyRecords(**reader).value();
    EXPECT_EQ(survey.records, 1'000U);
    EXPECT_EQ(survey.record_bytes, 499'500U);
    EXPECT_EQ(survey.longest_bytes, 999U);
    EXPECT_EQ(survey.end_offset, 499'500U + 16'000U);
    EXPECT_EQ(survey.first_problem, "");
  }
  EXPECT_THAT(OpenRecordFile(Path("f"), Compression::kZlib, {.begin_offset = 1}).status().message(),
              HasSubstr("is compressed"));
  EXPECT_FALSE(OpenRecordFile(Path("none"), Compression::kNone).ok());
  EXPECT_FALSE(CreateRecordFile(Path("none/f"), Compression::kNone).ok());
}

TEST_F(RecordFilesTest, ACompressedFileMayHoldShorterRecordsUnlessTheCallerSaysOtherwise) {
  // A record of zeros, of which gzip leaves a thousandth.
  constexpr std::uint64_t kBytes = (std::uint64_t{256} << 20) + 1;
  auto writer = CreateRecordFile(Path("f"), Compression::kGzip, 1);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Write(std::vector<std::byte>(kBytes)).ok());
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_LT(std::filesystem::file_size(Path("f")), kBytes / 200);

  auto reader = OpenRecordFile(Path("f"), Compression::kGzip);
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT((*reader)->Next().status().ToString(), HasSubstr("over the limit of 268435456"));
  reader = OpenRecordFile(Path("f"), Compression::kGzip, {.max_record_bytes = kBytes});
  ASSERT_TRUE(reader.ok());
  const auto record = (*reader)->Next();
  ASSERT_TRUE(record.ok()) << record.status().ToString();
  EXPECT_EQ((*record)->data.size(), kBytes);
}

TEST_F(RecordFilesTest, ALimitThatNoRecordMayHaveIsRefused) {
  std::ofstream(Path("f"), std::ios::binary) << FileOf({"first"});
  for (const std::uint64_t limit : {~std::uint64_t{0}, kLongestRecord + 1}) {
    EXPECT_THAT(OpenRecordFile(Path("f"), Compression::kNone, {.max_record_bytes = limit})
                    .status()
                    .ToString(),
                AllOf(HasSubstr("max_record_bytes is"), HasSubstr("at most 281474976710656")));
  }
  EXPECT_TRUE(
      OpenRecordFile(Path("f"), Compression::kNone, {.max_record_bytes = kLongestRecord}).ok());
}

TEST_F(RecordFilesTest, SurveysDamage) {
  std::string file = FileOf({"first", "second", "third"});
  file[12] ^= 1;
  std::ofstream(Path("f"), std::ios::binary) << file.substr(0, file.size() - 1);
  auto reader = OpenRecordFile(Path("f"), Compression::kNone);
  const Survey survey = SurveyRecords(**reader).value();
  EXPECT_EQ(survey.records, 1U);
  EXPECT_EQ(survey.bad_records, 1U);
  EXPECT_TRUE(survey.lost);
  EXPECT_THAT(survey.first_problem, HasSubstr("record 0 at offset 0"));
  reader = OpenRecordFile(directory_, Compression::kNone);
  EXPECT_FALSE(SurveyRecords(**reader).ok());
}

TEST_F(RecordFilesTest, InfersOfASample) {
  const auto record = [](const std::string& feature) { return ExampleOf({{"n", feature}}); };
  std::ofstream(Path("f"), std::ios::binary)
      << FileOf({record(Int64Feature({1})), record(Int64Feature({2})), record(FloatFeature({1}))});
  SchemaInference some(RecordType::kExample, BytesAs::kBinary);
  auto reader = OpenRecordFile(Path("f"), Compression::kNone);
  EXPECT_EQ(InferFrom(**reader, 2, some).value(), 2U);
  EXPECT_EQ(some.Finish().value().columns.size(), 1U);
  EXPECT_EQ(InferFrom(**reader, 2, some).value(), 1U);
  EXPECT_THAT(some.Finish().status().message(),
              testing::AllOf(HasSubstr("an int64_list in record 0 of " + Path("f")),
                             HasSubstr("a float_list in record 2 of " + Path("f"))));
}

TEST_F(RecordFilesTest, InfersOfTheSoundOnes) {
  const std::string good = ExampleOf({{"n", Int64Feature({1})}});
  std::string file = FileOf({good, good, "no example", good});
  file[12] ^= 1;
  std::ofstream(Path("f"), std::ios::binary) << file.substr(0, file.size() - 1);
  SchemaInference some(RecordType::kExample, BytesAs::kBinary);
  const auto reader = OpenRecordFile(Path("f"), Compression::kNone);
  EXPECT_EQ(InferFromSound(**reader, 10, some).value(), 1U);
  EXPECT_EQ(some.Finish().value().columns.size(), 1U);
  const auto directory = OpenRecordFile(directory_, Compression::kNone);
  EXPECT_FALSE(InferFromSound(**directory, 1, some).ok());
}

}  // namespace
}  // namespace tfos::records
