#include "feed/wire/region.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace tfos::feed {
namespace {

UniqueFd Duplicate(const Region& region) {
  return UniqueFd(::fcntl(region.fd(), F_DUPFD_CLOEXEC, 0));
}

TEST(RegionTest, BothSidesSeeTheSameBytes) {
  Result<std::unique_ptr<Region>> node = Region::Create(10'000);
  ASSERT_TRUE(node.ok()) << node.status().DebugString();
  EXPECT_EQ((*node)->bytes(), 12'288u) << "whole pages";
  Result<std::unique_ptr<Region>> feeder = Region::Map(Duplicate(**node), (*node)->bytes());
  ASSERT_TRUE(feeder.ok()) << feeder.status().DebugString();
  (*feeder)->memory()[9'999] = std::byte{42};
  EXPECT_EQ((*node)->memory()[9'999], std::byte{42});
}

TEST(RegionTest, NobodyCanResizeIt) {
  Result<std::unique_ptr<Region>> region = Region::Create(8192);
  ASSERT_TRUE(region.ok());
  EXPECT_NE(::ftruncate((*region)->fd(), 0), 0);
  EXPECT_NE(::ftruncate((*region)->fd(), 1 << 20), 0);
}

TEST(RegionTest, OnlyWhatWasPromisedIsMapped) {
  Result<std::unique_ptr<Region>> region = Region::Create(8192);
  ASSERT_TRUE(region.ok());
  EXPECT_FALSE(Region::Map(Duplicate(**region), 4096).ok());
  EXPECT_FALSE(Region::Map(Duplicate(**region), 16384).ok());
  UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  EXPECT_FALSE(Region::Map(std::move(unsealed), 8192).ok());
}

TEST(RegionTest, APrivateViewSharesUntilItIsDetached) {
  Result<std::unique_ptr<Region>> region = Region::Create(3 * 4096);
  ASSERT_TRUE(region.ok());
  const std::span<std::byte> memory = (*region)->memory();
  // From within one page to within another.
  Result<PrivateView> view = (*region)->MapPrivately(memory.subspan(64, 8192));
  ASSERT_TRUE(view.ok()) << view.status().DebugString();
  ASSERT_EQ(view->bytes().size(), 8192u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view->bytes().data()) % 4096, 64u);
  memory[64] = std::byte{1};
  memory[8255] = std::byte{2};
  EXPECT_EQ(view->bytes().front(), std::byte{1}) << "the same memory";
  ASSERT_TRUE(view->Detach().ok());
  memory[64] = std::byte{3};
  memory[8255] = std::byte{4};
  EXPECT_EQ(view->bytes().front(), std::byte{1});
  EXPECT_EQ(view->bytes().back(), std::byte{2});
  const PrivateView moved = std::move(*view);
  region->reset();
  EXPECT_EQ(moved.bytes().back(), std::byte{2}) << "it needs no region";
}

TEST(RegionTest, ViewsShareAMappingUntilOneIsDetached) {
  Result<std::unique_ptr<Region>> region = Region::Create(4 * 4096);
  ASSERT_TRUE(region.ok());
  const std::span<std::byte> memory = (*region)->memory();
  const std::byte* address = nullptr;
  {
    Result<PrivateView> first = (*region)->MapPrivately(memory.first(4096));
    ASSERT_TRUE(first.ok()) << first.status().DebugString();
    address = first->bytes().data();
  }
  Result<PrivateView> again = (*region)->MapPrivately(memory.first(4096));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->bytes().data(), address);
  ASSERT_TRUE(again->Detach().ok());
  Result<PrivateView> fresh = (*region)->MapPrivately(memory.first(4096));
  ASSERT_TRUE(fresh.ok());
  EXPECT_NE(fresh->bytes().data(), address);
}

TEST(RegionTest, DetachingConcernsNoOtherView) {
  Result<std::unique_ptr<Region>> region = Region::Create(6 * 4096);
  ASSERT_TRUE(region.ok());
  const std::span<std::byte> memory = (*region)->memory();
  // Neighbours that share a page.
  constexpr std::size_t kMiddle = 3 * 4096 + 128;
  const std::span<std::byte> low = memory.first(kMiddle);
  const std::span<std::byte> high = memory.subspan(kMiddle);
  std::memset(low.data(), 1, low.size());
  std::memset(high.data(), 2, high.size());
  Result<PrivateView> kept = (*region)->MapPrivately(high);
  ASSERT_TRUE(kept.ok());
  {
    Result<PrivateView> detached = (*region)->MapPrivately(low);
    ASSERT_TRUE(detached.ok());
    ASSERT_TRUE(detached->Detach().ok());
    std::memset(low.data(), 3, low.size());
    EXPECT_EQ(detached->bytes().front(), std::byte{1});
    EXPECT_EQ(detached->bytes().back(), std::byte{1});
    EXPECT_EQ(kept->bytes().front(), std::byte{2});
    ASSERT_TRUE(kept->Detach().ok());
    // What is written where nobody looks any more is seen by later views, also in shared pages.
    std::memset(high.data(), 4, high.size());
    Result<PrivateView> later = (*region)->MapPrivately(high);
    ASSERT_TRUE(later.ok());
    EXPECT_EQ(later->bytes().front(), std::byte{4});
  }
  EXPECT_EQ(kept->bytes().front(), std::byte{2}) << "its neighbour has gone";
  EXPECT_EQ(kept->bytes().back(), std::byte{2});
}

TEST(RegionTest, ImpossibleSizesAreRefused) {
  EXPECT_FALSE(Region::Create(0).ok());
  EXPECT_FALSE(Region::Create(~std::uint64_t{0}).ok());
}

TEST(RegionTest, ADetachedPageIsTheConsumersWhateverIsWrittenToTheFile) {
  Result<std::unique_ptr<Region>> region = Region::Create(4 * 4096);
  ASSERT_TRUE(region.ok());
  const std::span<std::byte> memory = (*region)->memory();
  std::memset(memory.data(), 1, memory.size());
  Result<PrivateView> view = (*region)->MapPrivately(memory.first(3 * 4096));
  ASSERT_TRUE(view.ok());
  ASSERT_TRUE(view->Detach().ok());
  const std::vector<std::byte> later(memory.size(), std::byte{2});
  ASSERT_EQ(::pwrite((*region)->fd(), later.data(), later.size(), 0),
            static_cast<ssize_t>(later.size()));
  EXPECT_EQ(memory.front(), std::byte{2});
  for (const std::byte byte : view->bytes()) ASSERT_EQ(byte, std::byte{1});
}

TEST(RegionTest, NobodyCanWriteToADetachedView) {
  Result<std::unique_ptr<Region>> region = Region::Create(4096);
  ASSERT_TRUE(region.ok());
  Result<PrivateView> view = (*region)->MapPrivately((*region)->memory());
  ASSERT_TRUE(view.ok());
  ASSERT_TRUE(view->Detach().ok());
  // The kernel refuses to read from a file into memory that is read-only.
  const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(zeros, 0);
  EXPECT_EQ(::read(zeros, const_cast<std::byte*>(view->bytes().data()), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(zeros);
}

TEST(RegionTest, NeighboursAreDetachedAtTheSameTime) {
  Result<std::unique_ptr<Region>> region = Region::Create(64 * 4096);
  ASSERT_TRUE(region.ok());
  const std::span<std::byte> memory = (*region)->memory();
  std::vector<PrivateView> views;
  constexpr std::size_t kBytes = 6000;  // So that neighbours share pages.
  for (std::size_t at = 0; at + kBytes <= memory.size(); at += kBytes) {
    Result<PrivateView> view = (*region)->MapPrivately(memory.subspan(at, kBytes));
    ASSERT_TRUE(view.ok());
    views.push_back(std::move(*view));
  }
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (PrivateView& view : views) {
    threads.emplace_back([&] { failures += view.Detach().ok() ? 0 : 1; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST(RegionTest, TrimGivesBackWhatIsNotUsed) {
  const auto bytes_in_memory = [](const Region& region) {
    struct stat status {};
    EXPECT_EQ(::fstat(region.fd(), &status), 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  };
  Result<std::unique_ptr<Region>> region = Region::Create(8192);
  ASSERT_TRUE(region.ok());
  std::memset((*region)->memory().data(), 7, 8192);
  EXPECT_EQ((*region)->Trim(8192), 8192u) << "all of it is used";
  EXPECT_EQ((*region)->Trim(100), 4096u);
  EXPECT_EQ(bytes_in_memory(**region), 4096u + 4096u)
      << "the page beyond went back to the system, and the one behind the region is kept";
  EXPECT_EQ((*region)->memory()[99], std::byte{7});
  std::memset((*region)->memory().data(), 7, 8192);
  EXPECT_EQ((*region)->memory()[8191], std::byte{7}) << "it can be used again";
}

TEST(RegionPoolTest, GivesOutAgainWhatCameBack) {
  RegionPool pool;
  Result<std::shared_ptr<Region>> region = pool.Take(8192, 0);
  ASSERT_TRUE(region.ok());
  const Region* address = region->get();
  (*region)->memory()[5] = std::byte{1};
  pool.GiveBack(std::move(*region), 16384);
  region = pool.Take(8000, 8192);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(region->get(), address);
  EXPECT_EQ((*region)->memory()[5], std::byte{1}) << "with its pages";
}

TEST(RegionPoolTest, KeepsNoMoreThanWhatIsSpare) {
  RegionPool pool;
  Result<std::shared_ptr<Region>> first = pool.Take(8192, 0);
  Result<std::shared_ptr<Region>> second = pool.Take(8192, 0);
  ASSERT_TRUE(first.ok() && second.ok());
  (*first)->memory()[5] = std::byte{1};
  (*second)->memory()[5] = std::byte{2};
  pool.GiveBack(std::move(*first), 8192);
  pool.GiveBack(std::move(*second), 8192);
  first = pool.Take(8192, 8192);
  second = pool.Take(8192, 0);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->memory()[5], std::byte{1});
  EXPECT_EQ((*second)->memory()[5], std::byte{0}) << "new memory";
}

TEST(RegionPoolTest, WhatIsKeptMakesRoomForAnotherSize) {
  RegionPool pool;
  Result<std::shared_ptr<Region>> small = pool.Take(4096, 12288);
  ASSERT_TRUE(small.ok());
  (*small)->memory()[5] = std::byte{1};
  pool.GiveBack(std::move(*small), 16384);
  Result<std::shared_ptr<Region>> large = pool.Take(16384, 0);
  ASSERT_TRUE(large.ok());
  small = pool.Take(4096, 0);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ((*small)->memory()[5], std::byte{0}) << "the one that was kept is gone";
}

}  // namespace
}  // namespace tfos::feed
