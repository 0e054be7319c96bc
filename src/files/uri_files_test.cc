#include "files/uri_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "records/files/record_files.h"
#include "records/files/record_index.h"

namespace tfos::files {
namespace {

using records::Compression;
using records::RecordFileOptions;

/// A file system in memory, each operation of which can be told to fail.
struct Disk {
  std::map<std::string, std::string, std::less<>> files;
  std::string broken;  ///< The operation that fails.

  Status Check(std::string_view operation, std::string_view path) const {
    if (operation != broken) return Status::Ok();
    return Status::FromErrno(EIO, std::string(operation) + " " + std::string(path));
  }
};

class DiskReader : public hadoop::ReadableFile {
 public:
  DiskReader(Disk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}

  Result<std::size_t> Read(std::uint64_t offset, std::span<std::byte> room) override {
    TFOS_RETURN_IF_ERROR(disk_.Check("read", path_));
    const std::string& bytes = disk_.files.at(path_);
    const std::size_t begin = std::min<std::size_t>(offset, bytes.size());
    const std::size_t count = std::min(room.size(), bytes.size() - begin);
    if (count != 0) std::memcpy(room.data(), bytes.data() + begin, count);
    return count;
  }

 private:
  Disk& disk_;
  const std::string path_;
};

class DiskWriter : public hadoop::WritableFile {
 public:
  DiskWriter(Disk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}

  Status Append(std::span<const std::byte> bytes) override {
    TFOS_RETURN_IF_ERROR(disk_.Check("write", path_));
    disk_.files[path_].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Status::Ok();
  }
  Status Flush() override { return disk_.Check("flush", path_); }
  Status Sync() override { return disk_.Check("sync", path_); }
  Result<std::uint64_t> Tell() override { return disk_.files[path_].size(); }
  Status Close() override { return disk_.Check("close", path_); }

 private:
  Disk& disk_;
  const std::string path_;
};

class DiskFileSystem : public hadoop::FileSystem {
 public:
  explicit DiskFileSystem(Disk& disk) : disk_(disk) {}

  Result<std::unique_ptr<hadoop::ReadableFile>> Open(std::string_view path) override {
    TFOS_RETURN_IF_ERROR(disk_.Check("open", path));
    if (!disk_.files.contains(path)) return Status::FromErrno(ENOENT, path);
    return std::unique_ptr<hadoop::ReadableFile>(
        std::make_unique<DiskReader>(disk_, std::string(path)));
  }
  Result<std::unique_ptr<hadoop::WritableFile>> Create(std::string_view path) override {
    TFOS_RETURN_IF_ERROR(disk_.Check("create", path));
    disk_.files.insert_or_assign(std::string(path), "");
    return std::unique_ptr<hadoop::WritableFile>(
        std::make_unique<DiskWriter>(disk_, std::string(path)));
  }
  Result<std::unique_ptr<hadoop::WritableFile>> CreateInDirectory(std::string_view path) override {
    TFOS_RETURN_IF_ERROR(disk_.Check("create in a directory", path));
    return Create(path);
  }
  Result<std::unique_ptr<hadoop::WritableFile>> Append(std::string_view path) override {
    return Status::FromErrno(EOPNOTSUPP, path);
  }
  Status Rename(std::string_view from, std::string_view to) override {
    TFOS_RETURN_IF_ERROR(disk_.Check("rename", from));
    auto moved = disk_.files.extract(std::string(from));
    if (moved.empty()) return Status::FromErrno(ENOENT, from);
    disk_.files.insert_or_assign(std::string(to), std::move(moved.mapped()));
    return Status::Ok();
  }
  Status Delete(std::string_view path, bool /*recursive*/) override {
    TFOS_RETURN_IF_ERROR(disk_.Check("delete", path));
    if (disk_.files.erase(std::string(path)) == 0) return Status::FromErrno(ENOENT, path);
    return Status::Ok();
  }
  Result<hadoop::FileInfo> Stat(std::string_view path) override {
    TFOS_RETURN_IF_ERROR(disk_.Check("stat", path));
    const auto found = disk_.files.find(path);
    if (found == disk_.files.end()) return Status::FromErrno(ENOENT, path);
    return hadoop::FileInfo{.bytes = found->second.size()};
  }
  Result<std::vector<hadoop::DirectoryEntry>> List(std::string_view path) override {
    return Status::FromErrno(EOPNOTSUPP, path);
  }
  Status MakeDirectories(std::string_view path) override {
    return Status::FromErrno(EOPNOTSUPP, path);
  }

 private:
  Disk& disk_;
};

class UriFilesTest : public ::testing::Test {
 protected:
  static constexpr int kRecords = 100;
  static constexpr std::size_t kRecordBytes = 10'000;

  Status Write(const std::string& path, Compression compression) {
    auto writer =
        records::CreateRecordFile(path, compression, records::kDefaultCompressionLevel, files_);
    if (!writer.ok()) return writer.status();
    const std::string record(kRecordBytes, 'x');
    for (int i = 0; i < kRecords; ++i) {
      TFOS_RETURN_IF_ERROR((*writer)->Write(std::as_bytes(std::span(record))));
    }
    return (*writer)->Close();
  }

  Result<records::Survey> Survey(const std::string& path, Compression compression,
                                 RecordFileOptions options = {}) {
    TFOS_ASSIGN_OR_RETURN(const auto reader,
                          records::OpenRecordFile(path, compression, options, files_));
    return records::SurveyRecords(*reader);
  }

  Disk disk_;
  DiskFileSystem hadoop_{disk_};
  const UriFiles files_{hadoop_};
};

TEST(IsUriTest, NeedsASchemeAndTwoSlashes) {
  for (const char* path : {"hdfs://h/a", "s3a://b/c", "file:///a", "a+b-c.d://x", "hdfs:///a"}) {
    EXPECT_TRUE(IsUri(path)) << path;
  }
  for (const char* path : {"/a", "a", "", "://a", "/hdfs://h/a", "1a://b", "a b://c", "hdfs:/a"}) {
    EXPECT_FALSE(IsUri(path)) << path;
  }
}

TEST_F(UriFilesTest, WritesReadsAndSplitsFilesOfHadoop) {
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    ASSERT_TRUE(Write("mem://m/f", compression).ok());
    const auto survey = Survey("mem://m/f", compression);
    ASSERT_TRUE(survey.ok()) << survey.status().ToString();
    EXPECT_EQ(survey->records, std::uint64_t{kRecords});
    EXPECT_EQ(survey->first_problem, "");
  }
  ASSERT_TRUE(Write("mem://m/f", Compression::kNone).ok());
  const auto made =
      records::IndexFile("mem://m/f", kRecordBytes, records::Validation::kFull, files_);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  ASSERT_TRUE(records::SaveIndex(*made, "mem://m/f", files_).ok());
  EXPECT_EQ(disk_.files.size(), 2U);
  const auto index = records::LoadIndex("mem://m/f", files_);
  ASSERT_TRUE(index.ok()) << index.status().ToString();
  std::uint64_t found = 0;
  const auto parts = index->Split(kRecordBytes * kRecords / 3);
  EXPECT_EQ(parts.size(), 3U);
  for (const records::FilePart& part : parts) {
    const auto survey = Survey("mem://m/f", Compression::kNone,
                               {.begin_offset = part.begin_offset,
                                .end_offset = part.end_offset,
                                .first_record = part.first_record});
    ASSERT_TRUE(survey.ok()) << survey.status().ToString();
    found += survey->records;
  }
  EXPECT_EQ(found, std::uint64_t{kRecords});
}

TEST_F(UriFilesTest, LeavesOtherPathsToThisHost) {
  const auto directory =
      std::filesystem::temp_directory_path() / ("tfos-uri-files-" + std::to_string(::getpid()));
  std::filesystem::create_directory(directory);
  const std::string path = directory / "f";
  ASSERT_TRUE(Write(path, Compression::kNone).ok());
  EXPECT_TRUE(disk_.files.empty());
  EXPECT_EQ(files_.SizeOf(path).value(), std::filesystem::file_size(path));
  ASSERT_TRUE(files_.Rename(path, path + "2").ok());
  EXPECT_EQ(Survey(path + "2", Compression::kNone)->records, std::uint64_t{kRecords});
  std::filesystem::remove_all(directory);
}

TEST_F(UriFilesTest, HandsFailuresOnWithTheirCodeAndPath) {
  for (const char* operation : {"create", "write", "close"}) {
    disk_.broken = operation;
    const Status status = Write("mem://m/g", Compression::kNone);
    EXPECT_EQ(status.code().value(), EIO) << operation;
    EXPECT_NE(status.ToString().find("mem://m/g"), std::string::npos) << operation;
  }
  disk_.broken = "";
  ASSERT_TRUE(Write("mem://m/g", Compression::kNone).ok());
  for (const char* operation : {"open", "read"}) {
    disk_.broken = operation;
    const auto survey = Survey("mem://m/g", Compression::kNone);
    EXPECT_EQ(survey.status().code().value(), EIO) << operation;
    EXPECT_NE(survey.status().ToString().find("mem://m/g"), std::string::npos) << operation;
  }
  disk_.broken = "";
  EXPECT_EQ(Survey("mem://m/none", Compression::kNone).status().code().value(), ENOENT);
}

TEST_F(UriFilesTest, AnIndexThatCouldNotBeSavedIsNotThere) {
  ASSERT_TRUE(Write("mem://m/f", Compression::kNone).ok());
  const auto index =
      records::IndexFile("mem://m/f", kRecordBytes, records::Validation::kFull, files_);
  ASSERT_TRUE(index.ok()) << index.status().ToString();
  for (const char* operation : {"create", "write", "close", "rename"}) {
    disk_.broken = operation;
    EXPECT_EQ(records::SaveIndex(*index, "mem://m/f", files_).code().value(), EIO) << operation;
    EXPECT_EQ(disk_.files.size(), 1U) << operation;
  }
  disk_.broken = "";
  EXPECT_TRUE(records::SaveIndex(*index, "mem://m/f", files_).ok());
}

}  // namespace
}  // namespace tfos::files
