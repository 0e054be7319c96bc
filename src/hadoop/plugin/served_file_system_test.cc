#include "hadoop/plugin/served_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/tf_codes.h"

namespace tfos::hadoop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A file that has `content`, for reading and for writing.
class FakeFile : public ReadableFile, public WritableFile {
 public:
  explicit FakeFile(std::string& content) : content_(content) {}

  Result<std::size_t> Read(std::uint64_t offset, std::span<std::byte> room) override {
    const std::size_t count = std::min<std::size_t>(room.size(), content_.size() - offset);
    std::memcpy(room.data(), content_.data() + offset, count);
    return count;
  }
  Status Append(std::span<const std::byte> bytes) override {
    content_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  Status Flush() override { return {}; }
  Status Sync() override { return {}; }
  Result<std::uint64_t> Tell() override { return std::uint64_t{content_.size()}; }
  Status Close() override { return Status::FromErrno(ENOSPC, "close a"); }

 private:
  std::string& content_;
};

/// Has one file and what `stat` says.
class FakeFiles : public FileSystem {
 public:
  Result<std::unique_ptr<ReadableFile>> Open(std::string_view /*path*/) override {
    return std::unique_ptr<ReadableFile>(new FakeFile(content));
  }
  Result<std::unique_ptr<WritableFile>> Create(std::string_view /*path*/) override {
    return std::unique_ptr<WritableFile>(new FakeFile(content));
  }
  Result<std::unique_ptr<WritableFile>> CreateInDirectory(std::string_view path) override {
    return Create(path);
  }
  Result<std::unique_ptr<WritableFile>> Append(std::string_view path) override {
    return Status::FromErrno(EACCES, std::string(path));
  }
  Status Rename(std::string_view from, std::string_view to) override {
    called += std::string(from) + ">" + std::string(to);
    return {};
  }
  Status Delete(std::string_view path, bool recursive) override {
    called += std::string(path) + (recursive ? "/*" : "");
    return {};
  }
  Result<FileInfo> Stat(std::string_view /*path*/) override { return stat(); }
  Result<std::vector<DirectoryEntry>> List(std::string_view /*path*/) override {
    return std::vector<DirectoryEntry>{{.name = "a", .info = {}}, {.name = "b", .info = {}}};
  }
  Status MakeDirectories(std::string_view path) override {
    called += std::string(path);
    return {};
  }

  std::string content = "0123456789";
  std::string called;
  std::function<Result<FileInfo>()> stat;
};

class ServedFileSystemTest : public testing::Test {
 protected:
  /// What a function of the table returned; its text goes to `message_`.
  std::int32_t Told(std::int32_t code) {
    message_ = text_ == nullptr ? "" : text_;
    table_.free_message(std::exchange(text_, nullptr));
    return code;
  }

  std::int32_t Stat() { return Told(table_.stat(table_.context, "a", &info_, &text_)); }

  FakeFiles files_;
  const tfos_file_system table_ = TableOf(files_);
  tfos_file_info info_{};
  char* text_ = nullptr;
  std::string message_;
};

TEST_F(ServedFileSystemTest, ReadsAndWritesFiles) {
  void* file = nullptr;
  ASSERT_EQ(Told(table_.open(table_.context, "a", &file, &text_)), tensorflow::kTfOk);
  char room[8] = {};
  std::uint64_t read = 0;
  EXPECT_EQ(Told(table_.read(file, 7, room, sizeof room, &read, &text_)), tensorflow::kTfOk);
  EXPECT_EQ(std::string(room, read), "789");
  table_.close_readable(file);

  ASSERT_EQ(Told(table_.create(table_.context, "a", &file, &text_)), tensorflow::kTfOk);
  EXPECT_EQ(Told(table_.write(file, "ab", 2, &text_)), tensorflow::kTfOk);
  std::uint64_t position = 0;
  EXPECT_EQ(Told(table_.tell(file, &position, &text_)), tensorflow::kTfOk);
  EXPECT_EQ(position, 12U);
  EXPECT_EQ(Told(table_.close(file, &text_)), tensorflow::kTfResourceExhausted);
  EXPECT_THAT(message_, HasSubstr("close a"));
  table_.close_writable(file);
  EXPECT_EQ(files_.content, "0123456789ab");
}

TEST_F(ServedFileSystemTest, PassesPathsOn) {
  EXPECT_EQ(Told(table_.rename(table_.context, "a", "b", &text_)), tensorflow::kTfOk);
  EXPECT_EQ(Told(table_.remove(table_.context, "c", 1, &text_)), tensorflow::kTfOk);
  EXPECT_EQ(Told(table_.make_directories(table_.context, "d", &text_)), tensorflow::kTfOk);
  EXPECT_EQ(files_.called, "a>bc/*d");
}

TEST_F(ServedFileSystemTest, ErrorsBecomeCodesOfTensorFlow) {
  void* file = nullptr;
  EXPECT_EQ(Told(table_.append(table_.context, "a", &file, &text_)),
            tensorflow::kTfPermissionDenied);
  files_.stat = [] { return Status::FromErrno(ENOENT, "look at a"); };
  EXPECT_EQ(Stat(), tensorflow::kTfNotFound);
  EXPECT_THAT(message_, HasSubstr("look at a"));
  files_.stat = [] { return Status(ErrorKind::kReconnect, "gone"); };
  EXPECT_EQ(Stat(), tensorflow::kTfUnavailable);
  files_.stat = [] { return FileInfo{.bytes = 5, .modified_ns = 7, .is_directory = true}; };
  EXPECT_EQ(Stat(), tensorflow::kTfOk);
  EXPECT_EQ(info_.bytes, 5U);
  EXPECT_EQ(info_.modified_ns, 7);
  EXPECT_EQ(info_.is_directory, 1);
}

TEST_F(ServedFileSystemTest, ExceptionsStayInside) {
  files_.stat = []() -> Result<FileInfo> { throw std::bad_alloc(); };
  EXPECT_EQ(Stat(), tensorflow::kTfResourceExhausted);
  files_.stat = []() -> Result<FileInfo> { throw std::runtime_error("odd"); };
  EXPECT_EQ(Stat(), tensorflow::kTfInternal);
  EXPECT_EQ(message_, "odd");
}

TEST_F(ServedFileSystemTest, ListsUntilThereIsNoMemory) {
  std::vector<std::string> names;
  const tfos_add_entry add = [](void* to, const char* name) {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 1;
  };
  EXPECT_EQ(Told(table_.list(table_.context, "a", add, &names, &text_)), tensorflow::kTfOk);
  EXPECT_THAT(names, ElementsAre("a", "b"));
  const tfos_add_entry refuse = [](void* /*to*/, const char* /*name*/) { return 0; };
  EXPECT_EQ(Told(table_.list(table_.context, "a", refuse, nullptr, &text_)),
            tensorflow::kTfResourceExhausted);
}

}  // namespace
}  // namespace tfos::hadoop
