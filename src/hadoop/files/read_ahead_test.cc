#include "hadoop/files/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <semaphore>
#include <thread>
#include <vector>

namespace tfos::hadoop {
namespace {

constexpr int kReads = 1000;  // More than a test makes.

/// What a fake file saw and can be told.
struct Seen {
  std::vector<std::byte> bytes;
  std::atomic<int> streamed = 0;
  std::atomic<int> positioned = 0;
  std::atomic<bool> broken = false;
  std::uint64_t last_streamed = 0;               ///< Where the last read of the stream began.
  std::counting_semaphore<> may_stream{kReads};  ///< Each read of the stream takes one.
  std::counting_semaphore<> has_streamed{0};
};

class FakeSource : public PositionedSource {
 public:
  explicit FakeSource(Seen& seen) : seen_(seen) {}

  Result<std::size_t> ReadStream(std::uint64_t offset, std::span<std::byte> room) override {
    seen_.may_stream.acquire();
    ++seen_.streamed;
    seen_.last_streamed = offset;
    auto read = Copy(offset, room);
    seen_.has_streamed.release();
    return read;
  }
  Result<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> room) override {
    ++seen_.positioned;
    return Copy(offset, room);
  }

 private:
  Result<std::size_t> Copy(std::uint64_t offset, std::span<std::byte> room) {
    if (seen_.broken) return Status::FromErrno(EIO, "read");
    if (offset >= seen_.bytes.size()) return std::size_t{0};
    const auto begin = static_cast<std::size_t>(offset);
    const std::size_t count = std::min(room.size(), seen_.bytes.size() - begin);
    std::memcpy(room.data(), seen_.bytes.data() + begin, count);
    return count;
  }

  Seen& seen_;
};

class ReadAheadTest : public ::testing::Test {
 protected:
  explicit ReadAheadTest() : file_(std::make_unique<FakeSource>(seen_)) {
    seen_.bytes.resize((std::size_t{5} << 20) + 123);
    for (std::size_t i = 0; i < seen_.bytes.size(); ++i) {
      seen_.bytes[i] = static_cast<std::byte>(i * 31 >> 3);
    }
  }

  /// Reads and compares; returns how much there was.
  std::size_t Check(std::uint64_t offset, std::size_t bytes) {
    std::vector<std::byte> room(bytes);
    const auto read = file_.Read(offset, room);
    EXPECT_TRUE(read.ok());
    if (!read.ok()) return 0;
    const std::size_t count = read.value();
    EXPECT_TRUE(count == 0 || std::memcmp(room.data(), seen_.bytes.data() + offset, count) == 0);
    return count;
  }

  Seen seen_;
  ReadAhead file_;
};

TEST_F(ReadAheadTest, ReadsAheadOfSmallSequentialReads) {
  constexpr std::size_t kStep = 1000;
  std::uint64_t offset = 0;
  while (const std::size_t read = Check(offset, kStep)) offset += read;
  EXPECT_EQ(offset, seen_.bytes.size());
  EXPECT_EQ(seen_.positioned, 0);
  EXPECT_LT(seen_.streamed, 20);
}

TEST_F(ReadAheadTest, PassesLargeSequentialReadsOn) {
  constexpr std::size_t kStep = std::size_t{1} << 20;
  std::uint64_t offset = 0;
  while (const std::size_t read = Check(offset, kStep)) offset += read;
  EXPECT_EQ(offset, seen_.bytes.size());
  EXPECT_EQ(seen_.streamed, 7);  // Five, the rest, and the end.
}

TEST_F(ReadAheadTest, ReadsNothingAheadOfJumps) {
  for (const std::uint64_t offset : {4'000'000u, 10u, 2'000'000u, 3'000'000u}) {
    EXPECT_EQ(Check(offset, 100), 100u);
  }
  EXPECT_EQ(seen_.streamed, 0);
  EXPECT_EQ(seen_.positioned, 4);
}

TEST_F(ReadAheadTest, NoticesThatReadsBecomeSequential) {
  EXPECT_EQ(Check(1'000'000, 100), 100u);
  EXPECT_EQ(Check(1'000'100, 100), 100u);
  EXPECT_EQ(Check(1'000'200, 100), 100u);
  EXPECT_EQ(seen_.positioned, 1);
  EXPECT_EQ(seen_.streamed, 1);
}

TEST_F(ReadAheadTest, EndsWhereTheFileEnds) {
  const std::size_t size = seen_.bytes.size();
  EXPECT_EQ(Check(size - 10, 100), 10u);
  EXPECT_EQ(Check(size, 100), 0u);
  EXPECT_EQ(Check(size + 1000, 100), 0u);
}

TEST_F(ReadAheadTest, HandsFailuresOnAndKeepsNothingOfThem) {
  EXPECT_EQ(Check(0, 100), 100u);
  seen_.broken = true;
  std::vector<std::byte> room(ReadAhead::kFirstWindow);
  EXPECT_FALSE(file_.Read(100, room).ok());
  seen_.broken = false;
  EXPECT_EQ(Check(100, 1000), 1000u);
}

TEST_F(ReadAheadTest, ReadsTheNextWindowMeanwhile) {
  constexpr std::size_t kFirst = ReadAhead::kFirstWindow;
  EXPECT_EQ(Check(0, kFirst), kFirst);
  EXPECT_EQ(seen_.streamed, 1);
  EXPECT_EQ(Check(kFirst, 10), 10u);
  // The third read of the stream comes by itself.
  for (int i = 0; i < 3; ++i) seen_.has_streamed.acquire();
  EXPECT_EQ(seen_.last_streamed, 3 * kFirst);
  EXPECT_EQ(Check(3 * kFirst, 10), 10u);
}

TEST_F(ReadAheadTest, FailsOnlyWhoAsksForWhatCouldNotBeRead) {
  constexpr std::size_t kFirst = ReadAhead::kFirstWindow;
  EXPECT_EQ(Check(0, kFirst), kFirst);
  for (int i = 0; i < kReads - 2; ++i) seen_.may_stream.acquire();  // One is left.
  EXPECT_EQ(Check(kFirst, 10), 10u);
  seen_.broken = true;
  seen_.may_stream.release(kReads);
  for (int i = 0; i < 3; ++i) seen_.has_streamed.acquire();
  EXPECT_EQ(Check(kFirst + 10, 2 * kFirst - 10), 2 * kFirst - 10);  // Of the second window.
  std::vector<std::byte> room(10);
  EXPECT_FALSE(file_.Read(3 * kFirst, room).ok());
  seen_.broken = false;
  EXPECT_EQ(Check(3 * kFirst, 10), 10u);
}

TEST_F(ReadAheadTest, GivesUpWhatWasReadAheadAfterAJump) {
  constexpr std::size_t kFirst = ReadAhead::kFirstWindow;
  EXPECT_EQ(Check(0, kFirst), kFirst);
  EXPECT_EQ(Check(kFirst, 10), 10u);
  std::uint64_t offset = 4'000'000;
  while (const std::size_t read = Check(offset, 50'000)) offset += read;
  EXPECT_EQ(offset, seen_.bytes.size());
  EXPECT_EQ(Check(5, 100), 100u);
}

TEST_F(ReadAheadTest, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (std::size_t i = 0; i < 500; ++i) {
        const std::uint64_t offset = (i * 7919 + thread * 104'729) * 13 % 5'000'000;
        EXPECT_EQ(Check(offset, 3000), 3000u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tfos::hadoop
