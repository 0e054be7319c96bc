#include "hadoop/files/buffered_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <string>
#include <string_view>

namespace tfos::hadoop {
namespace {

/// What a fake file was given and can be told.
struct Seen {
  std::string content;
  int closed = 0;
  int discarded = 0;
  bool broken = false;
  bool throws = false;
};

class FakeFile : public WritableFile {
 public:
  explicit FakeFile(Seen& seen) : seen_(seen) {}

  Status Append(std::span<const std::byte> bytes) override {
    if (seen_.closed > 0) return Status::FromErrno(EBADF, "the file is closed");
    TFOS_RETURN_IF_ERROR(Outcome());
    seen_.content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Status::Ok();
  }
  Status Flush() override { return Outcome(); }
  Status Sync() override { return Outcome(); }
  Result<std::uint64_t> Tell() override { return seen_.content.size(); }
  Status Close() override {
    ++seen_.closed;
    return Outcome();
  }
  void Discard() override { ++seen_.discarded; }

 private:
  /// As where Java takes no further thread, or has no memory for moving data.
  Status Outcome() const {
    if (seen_.throws) throw std::bad_alloc();
    return seen_.broken ? Status(ErrorKind::kRetryLater, "not now") : Status::Ok();
  }

  Seen& seen_;
};

class BufferedFileTest : public ::testing::Test {
 protected:
  Status Append(std::string_view text) { return file_.Append(std::as_bytes(std::span(text))); }

  const std::string large_ = std::string(BufferedFile::kBufferBytes, 'x');
  Seen seen_;
  BufferedFile file_{std::make_unique<FakeFile>(seen_)};
};

TEST_F(BufferedFileTest, GathersSmallPieces) {
  EXPECT_TRUE(Append("a").ok());
  EXPECT_TRUE(Append("b").ok());
  EXPECT_EQ(seen_.content, "");
  EXPECT_EQ(file_.Tell().value(), 2u);
  EXPECT_TRUE(file_.Flush().ok());
  EXPECT_EQ(seen_.content, "ab");
  EXPECT_TRUE(Append(large_).ok());
  EXPECT_TRUE(Append("c").ok());
  EXPECT_TRUE(file_.Close().ok());
  EXPECT_EQ(seen_.content, "ab" + large_ + "c");
}

TEST_F(BufferedFileTest, NothingMoreGoesToAFileThatIsDiscarded) {
  EXPECT_TRUE(Append(large_).ok());
  EXPECT_TRUE(Append("a").ok());
  file_.Discard();
  file_.Discard();
  EXPECT_TRUE(file_.Close().ok());
  EXPECT_EQ(seen_.content, large_);
  EXPECT_EQ(seen_.discarded, 1);
  EXPECT_EQ(seen_.closed, 0);
}

TEST_F(BufferedFileTest, AFileThatIsClosedIsNotDiscarded) {
  EXPECT_TRUE(file_.Close().ok());
  file_.Discard();
  EXPECT_EQ(seen_.discarded, 0);
}

TEST_F(BufferedFileTest, AFileWithoutItsEndIsNeverWhole) {
  EXPECT_TRUE(Append("lost").ok());
  seen_.broken = true;
  EXPECT_FALSE(file_.Flush().ok());
  seen_.broken = false;
  EXPECT_FALSE(Append("more").ok());
  EXPECT_FALSE(Append(large_).ok());
  EXPECT_FALSE(file_.Sync().ok());
  EXPECT_FALSE(file_.Tell().ok());
  EXPECT_EQ(file_.Close().message(), "not now");
  EXPECT_EQ(file_.Close().message(), "not now");
  EXPECT_EQ(seen_.content, "");
  EXPECT_EQ(seen_.discarded, 1);
  EXPECT_EQ(seen_.closed, 0);
}

TEST_F(BufferedFileTest, ALargePieceThatIsLostIsKnownAtTheEnd) {
  seen_.broken = true;
  EXPECT_FALSE(Append(large_).ok());
  seen_.broken = false;
  EXPECT_FALSE(file_.Close().ok());
}

TEST_F(BufferedFileTest, WhatIsLostForWantOfMemoryIsKnownAtTheEnd) {
  EXPECT_TRUE(Append("lost").ok());
  seen_.throws = true;
  EXPECT_THROW(static_cast<void>(file_.Flush()), std::bad_alloc);
  seen_.throws = false;
  EXPECT_FALSE(Append("more").ok());
  EXPECT_EQ(file_.Close().kind(), ErrorKind::kNoResources);
  EXPECT_EQ(seen_.content, "");
}

TEST_F(BufferedFileTest, TheEndThatIsWrittenByClosingMayFail) {
  EXPECT_TRUE(Append("lost").ok());
  seen_.broken = true;
  EXPECT_FALSE(file_.Close().ok());
  EXPECT_EQ(seen_.discarded, 1) << "it would appear without its end";
  EXPECT_EQ(seen_.closed, 0);
}

TEST_F(BufferedFileTest, NothingGoesToAClosedFile) {
  EXPECT_TRUE(Append("all").ok());
  EXPECT_TRUE(file_.Close().ok());
  EXPECT_EQ(Append("more").code().value(), EBADF);
  EXPECT_TRUE(file_.Close().ok());
  EXPECT_EQ(seen_.closed, 1);
}

}  // namespace
}  // namespace tfos::hadoop
