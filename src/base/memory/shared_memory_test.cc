#include "base/memory/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace tfos {
namespace {

constexpr std::uint64_t kBytes = 10'000;

Result<SharedMemory> Create(SharedMemory::Writers writers = SharedMemory::Writers::kAll) {
  return SharedMemory::Create("tfos-test", kBytes, writers);
}

UniqueFd Another(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

TEST(SharedMemoryTest, OthersSeeWhatIsWritten) {
  auto created = Create();
  ASSERT_TRUE(created.ok()) << created.status().ToString();
  ASSERT_EQ(created->bytes().size(), kBytes);
  EXPECT_TRUE(std::ranges::all_of(created->bytes(), [](std::byte b) { return b == std::byte{}; }));
  const auto mapped = SharedMemory::Map(Another(created->fd()), kBytes, /*writable=*/true);
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  created->bytes()[kBytes - 1] = std::byte{7};
  EXPECT_EQ(mapped->bytes()[kBytes - 1], std::byte{7});
}

TEST(SharedMemoryTest, NobodyCanResizeIt) {
  const auto created = Create();
  ASSERT_TRUE(created.ok());
  EXPECT_NE(::ftruncate(created->fd(), 1), 0);
  EXPECT_NE(::ftruncate(created->fd(), 2 * kBytes), 0);
}

TEST(SharedMemoryTest, OnlyWhatWasPromisedIsMapped) {
  const auto created = Create();
  ASSERT_TRUE(created.ok());
  for (const std::uint64_t bytes : {kBytes - 1, kBytes + 1}) {
    const auto mapped = SharedMemory::Map(Another(created->fd()), bytes, /*writable=*/false);
    ASSERT_FALSE(mapped.ok());
    EXPECT_EQ(mapped.status().kind(), ErrorKind::kBadInput);
  }
  UniqueFd open_ended(::memfd_create("tfos-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open_ended.get(), kBytes), 0);
  EXPECT_FALSE(SharedMemory::Map(std::move(open_ended), kBytes, /*writable=*/false).ok());
}

/// What another process does that wants more than it was given.
UniqueFd OpenAgainForWriting(int fd) {
  return UniqueFd(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDWR | O_CLOEXEC));
}

TEST(SharedMemoryTest, WhatItsCreatorAloneMayWriteIsWrittenByNobodyElse) {
  const auto created = Create(SharedMemory::Writers::kCreator);
  ASSERT_TRUE(created.ok()) << created.status().ToString();
  auto reading = created->OpenForReading();
  ASSERT_TRUE(reading.ok()) << reading.status().ToString();
  const UniqueFd again = OpenAgainForWriting(reading->get());
  ASSERT_TRUE(again.valid()) << "the descriptor can be opened again, but nothing written by it";
  for (const int fd : {created->fd(), reading->get(), again.get()}) {
    EXPECT_FALSE(SharedMemory::Map(Another(fd), kBytes, /*writable=*/true).ok());
    EXPECT_LT(::pwrite(fd, "x", 1, 0), 0);
    void* const readable = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
    ASSERT_NE(readable, MAP_FAILED);
    EXPECT_NE(::mprotect(readable, kBytes, PROT_READ | PROT_WRITE), 0);
    ::munmap(readable, kBytes);
    // Holes would read as zeros.
    EXPECT_NE(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  }
  EXPECT_NE(::fcntl(again.get(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "seals are final";
  const auto mapped = SharedMemory::Map(std::move(*reading), kBytes, /*writable=*/false);
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  created->bytes()[3] = std::byte{7};
  EXPECT_EQ(mapped->bytes()[3], std::byte{7});
}

TEST(SharedMemoryTest, ADescriptorForReadingGivesNoWritableMapping) {
  const auto created = Create();
  ASSERT_TRUE(created.ok());
  auto reading = created->OpenForReading();
  ASSERT_TRUE(reading.ok()) << reading.status().ToString();
  EXPECT_FALSE(SharedMemory::Map(Another(reading->get()), kBytes, /*writable=*/true).ok());
  EXPECT_TRUE(SharedMemory::Map(std::move(*reading), kBytes, /*writable=*/false).ok());
}

TEST(SharedMemoryTest, ItStaysMappedWhenItMovesAndWithoutItsDescriptor) {
  auto created = Create();
  ASSERT_TRUE(created.ok());
  SharedMemory moved = std::move(*created);
  moved.CloseFd();
  EXPECT_LT(moved.fd(), 0);
  moved.bytes()[0] = std::byte{3};
  EXPECT_EQ(moved.bytes()[0], std::byte{3});
}

}  // namespace
}  // namespace tfos
