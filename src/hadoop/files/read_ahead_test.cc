#include "hadoop/files/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
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
  std::atomic<bool> scarce = false;              ///< There is no memory to read the stream.
  std::atomic<bool> blind = false;               ///< A look for more fails.
  std::uint64_t last_streamed = 0;               ///< Where the last read of the stream began.
  std::counting_semaphore<> may_stream{kReads};  ///< Each read of the stream takes one.
  std::counting_semaphore<> has_streamed{0};
  /// Each thread that reads the stream, except for the test's.
  std::counting_semaphore<> has_begun{0};
  std::counting_semaphore<> has_ended{0};
  std::atomic<int> threads = 0;         ///< Those.
  std::atomic<std::size_t> hidden = 0;  ///< Bytes at the end that were not there at the opening.
  std::atomic<int> looks = 0;
  std::atomic<bool> deleted = false;
};

/// Tells of the end of the thread that it is local to.
struct Farewell {
  explicit Farewell(Seen& seen) : seen_(seen) {
    ++seen_.threads;
    seen_.has_begun.release();
  }
  ~Farewell() { seen_.has_ended.release(); }
  Seen& seen_;
};

class FakeSource : public PositionedSource {
 public:
  explicit FakeSource(Seen& seen) : seen_(seen) {}

  Result<std::size_t> ReadStream(std::uint64_t offset, std::span<std::byte> room) override {
    if (std::this_thread::get_id() != test_) thread_local const Farewell farewell(seen_);
    seen_.may_stream.acquire();
    if (seen_.scarce) throw std::bad_alloc();
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
  Result<bool> LookForMore(std::uint64_t offset) override {
    ++seen_.looks;
    if (seen_.broken || seen_.blind) return Status::FromErrno(EIO, "open");
    if (seen_.deleted || offset >= seen_.bytes.size()) return false;
    seen_.hidden = 0;
    return true;
  }

 private:
  Result<std::size_t> Copy(std::uint64_t offset, std::span<std::byte> room) {
    if (seen_.broken) return Status::FromErrno(EIO, "read");
    const std::size_t size = seen_.bytes.size() - seen_.hidden;
    if (offset >= size) return std::size_t{0};
    const auto begin = static_cast<std::size_t>(offset);
    const std::size_t count = std::min(room.size(), size - begin);
    std::memcpy(room.data(), seen_.bytes.data() + begin, count);
    return count;
  }

  Seen& seen_;
  const std::thread::id test_ = std::this_thread::get_id();
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

  /// Reads on in pieces until nothing comes; returns where that is.
  std::uint64_t CheckAll(std::uint64_t offset, std::size_t step) {
    while (const std::size_t read = Check(offset, step)) offset += read;
    return offset;
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

TEST_F(ReadAheadTest, FailsOnlyWhoAsksForWhatThereWasNoMemoryFor) {
  constexpr std::size_t kFirst = ReadAhead::kFirstWindow;
  EXPECT_EQ(Check(0, kFirst), kFirst);
  for (int i = 0; i < kReads - 2; ++i) seen_.may_stream.acquire();  // One is left.
  EXPECT_EQ(Check(kFirst, 10), 10u);
  seen_.has_begun.acquire();
  seen_.scarce = true;
  seen_.may_stream.release(kReads);
  seen_.has_ended.acquire();
  seen_.scarce = false;
  EXPECT_EQ(Check(kFirst + 10, 2 * kFirst - 10), 2 * kFirst - 10);  // Of the second window.
  std::vector<std::byte> room(10);
  const auto read = file_.Read(3 * kFirst, room);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().kind(), ErrorKind::kNoResources);
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

TEST_F(ReadAheadTest, ShowsWhatIsAddedToWhoWaitsAtTheEnd) {
  const std::size_t size = seen_.bytes.size();
  for (const std::size_t step : {std::size_t{1000}, std::size_t{1} << 20}) {
    seen_.hidden = 300'000;
    EXPECT_EQ(CheckAll(0, step), size - 300'000);
    seen_.looks = 0;
    EXPECT_EQ(Check(size - 300'001, 1), 1u);  // As TensorFlow does before it tries again.
    EXPECT_EQ(CheckAll(size - 300'000, step), size);
    EXPECT_EQ(seen_.looks, 1);
    EXPECT_EQ(Check(size, step), 0u);
    EXPECT_EQ(seen_.looks, 2);
  }
}

TEST_F(ReadAheadTest, ShowsTheRestOfARecordThatWasCut) {
  const std::size_t size = seen_.bytes.size();
  seen_.hidden = 10;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Check(size - 101, 1), 1u);
    EXPECT_EQ(Check(size - 100, 200'000), i == 0 ? 90u : 100u);
  }
}

TEST_F(ReadAheadTest, LooksForNothingInFilesThatAreReadAtOnce) {
  for (const std::size_t step : {std::size_t{1000}, std::size_t{1} << 20, std::size_t{8} << 20}) {
    EXPECT_EQ(CheckAll(0, step), seen_.bytes.size());
    EXPECT_EQ(seen_.looks, 0);
    seen_.bytes.pop_back();  // Each time it ends elsewhere.
  }
}

TEST_F(ReadAheadTest, AFileThatIsGoneEndsWhereItEnded) {
  seen_.hidden = 10;
  const std::uint64_t end = CheckAll(0, 100'000);
  seen_.deleted = true;
  EXPECT_EQ(Check(end, 10), 0u);
  EXPECT_EQ(seen_.looks, 1);
  EXPECT_EQ(Check(end - 10, 10), 10u);
}

TEST_F(ReadAheadTest, SaysThatItCannotLook) {
  seen_.hidden = 10;
  const std::size_t size = seen_.bytes.size();
  EXPECT_EQ(Check(size - 20, 20), 10u);
  EXPECT_EQ(Check(size - 10, 20), 0u);
  std::vector<std::byte> room(20);
  seen_.broken = true;
  EXPECT_FALSE(file_.Read(size - 10, room).ok());
  seen_.broken = false;
  EXPECT_EQ(Check(size - 10, 20), 10u);
}

TEST_F(ReadAheadTest, WhatWasReadIsGivenThoughALookFails) {
  seen_.hidden = 10;
  const std::size_t size = seen_.bytes.size();
  EXPECT_EQ(Check(size - 20, 20), 10u);
  seen_.blind = true;
  EXPECT_EQ(Check(size - 20, 20), 10u);
  std::vector<std::byte> room(20);
  EXPECT_FALSE(file_.Read(size - 10, room).ok()) << "the next read tells of it";
  seen_.blind = false;
  EXPECT_EQ(Check(size - 20, 20), 20u);
}

TEST_F(ReadAheadTest, AFileAtItsEndHasNoThread) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(CheckAll(0, 50'000), seen_.bytes.size());
    seen_.has_ended.acquire();
    EXPECT_EQ(seen_.threads, i + 1);
    // Makes the next read at 0 sequential.
    EXPECT_EQ(Check(0, 0), 0u);
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Check(seen_.bytes.size(), 1000), 0u);
  EXPECT_EQ(seen_.threads, 2);
}

TEST_F(ReadAheadTest, AFileWhoseEndIsReadAheadHasNoThread) {
  seen_.bytes.resize(3 * ReadAhead::kFirstWindow + ReadAhead::kLastWindow);
  std::uint64_t offset = 0;
  while (offset < seen_.bytes.size()) offset += Check(offset, ReadAhead::kFirstWindow);
  seen_.has_ended.acquire();
  EXPECT_EQ(Check(offset, 10), 0u);
}

TEST_F(ReadAheadTest, AFileThatIsReadHereAndThereHasNoThread) {
  constexpr std::size_t kFirst = ReadAhead::kFirstWindow;
  EXPECT_EQ(Check(0, kFirst), kFirst);
  EXPECT_EQ(Check(kFirst, 10), 10u);
  seen_.has_begun.acquire();
  EXPECT_EQ(Check(4'000'000, 10), 10u);
  seen_.has_ended.acquire();
  EXPECT_EQ(CheckAll(4'000'010, 50'000), seen_.bytes.size());
}

TEST_F(ReadAheadTest, AJumpDoesNotWaitForWhatIsReadAhead) {
  constexpr std::size_t kFirst = ReadAhead::kFirstWindow;
  EXPECT_EQ(Check(0, kFirst), kFirst);
  for (int i = 0; i < kReads - 2; ++i) seen_.may_stream.acquire();  // One is left.
  EXPECT_EQ(Check(kFirst, 10), 10u);
  seen_.has_begun.acquire();
  EXPECT_EQ(Check(4'000'000, 10), 10u);
  seen_.may_stream.release(kReads);
  seen_.has_ended.acquire();
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
