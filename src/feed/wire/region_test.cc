#include "feed/wire/region.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
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
  view->Detach();
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
  again->Detach();
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
    detached->Detach();
    std::memset(low.data(), 3, low.size());
    EXPECT_EQ(detached->bytes().front(), std::byte{1});
    EXPECT_EQ(detached->bytes().back(), std::byte{1});
    EXPECT_EQ(kept->bytes().front(), std::byte{2});
    kept->Detach();
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

TEST(RegionPoolTest, KeepsToItsBudget) {
  RegionPool pool(16384);
  Result<std::unique_ptr<Region>> first = pool.Take(8192);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(pool.CanTake(8192));
  EXPECT_FALSE(pool.CanTake(8193));
  EXPECT_FALSE(pool.CanTake(~std::uint64_t{0}));
  pool.GiveBack(std::move(*first), true);
  EXPECT_TRUE(pool.CanTake(1 << 30)) << "a large one passes alone";
}

TEST(RegionPoolTest, ReusesWhatCameBackInOrder) {
  RegionPool pool(16384);
  Result<std::unique_ptr<Region>> region = pool.Take(8192);
  ASSERT_TRUE(region.ok());
  const Region* address = region->get();
  (*region)->memory()[5] = std::byte{1};
  pool.GiveBack(std::move(*region), true);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  region = pool.Take(8000);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(region->get(), address);
  EXPECT_EQ((*region)->memory()[5], std::byte{1}) << "with its pages";
}

TEST(RegionPoolTest, ThrowsAwayWhatItsFeederMayStillWriteTo) {
  RegionPool pool(16384);
  Result<std::unique_ptr<Region>> region = pool.Take(8192);
  ASSERT_TRUE(region.ok());
  (*region)->memory()[5] = std::byte{1};
  pool.GiveBack(std::move(*region), false);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  region = pool.Take(8192);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->memory()[5], std::byte{0}) << "new memory";
}

std::uint64_t BytesInMemory(const Region& region) {
  struct stat status {};
  EXPECT_EQ(::fstat(region.fd(), &status), 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

TEST(RegionPoolTest, OnlyWhatIsStillReadCountsAfterTrim) {
  RegionPool pool(5 * 8192);
  std::vector<std::unique_ptr<Region>> unread;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(pool.CanTake(8192)) << i;
    Result<std::unique_ptr<Region>> region = pool.Take(8192);
    ASSERT_TRUE(region.ok());
    std::memset((*region)->memory().data(), 7, 8192);
    pool.Trim(**region, 100);
    EXPECT_EQ(BytesInMemory(**region), 4096u) << "the page beyond went back to the system";
    EXPECT_EQ((*region)->memory()[99], std::byte{7});
    unread.push_back(std::move(*region));
  }
  EXPECT_EQ(pool.bytes_in_use(), 8 * 4096u);
  for (std::unique_ptr<Region>& region : unread) pool.GiveBack(std::move(region), true);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST(RegionPoolTest, ATrimmedRegionIsWholeWhenItIsTakenAgain) {
  RegionPool pool(8192);
  Result<std::unique_ptr<Region>> region = pool.Take(8192);
  ASSERT_TRUE(region.ok());
  const Region* address = region->get();
  pool.Trim(**region, 1);
  pool.GiveBack(std::move(*region), true);
  region = pool.Take(8192);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(region->get(), address);
  EXPECT_EQ(pool.bytes_in_use(), 8192u);
  EXPECT_FALSE(pool.CanTake(1));
  std::memset((*region)->memory().data(), 7, 8192);
  EXPECT_EQ((*region)->memory()[8191], std::byte{7});
  pool.Trim(**region, 8192);
  EXPECT_EQ(pool.bytes_in_use(), 8192u) << "all of it is used";
}

TEST(RegionPoolTest, IdleMemoryMakesRoomForAnotherSize) {
  RegionPool pool(16384);
  Result<std::unique_ptr<Region>> small = pool.Take(4096);
  ASSERT_TRUE(small.ok());
  pool.GiveBack(std::move(*small), true);
  Result<std::unique_ptr<Region>> large = pool.Take(16384);
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(pool.bytes_in_use(), 16384u);
  (*large)->memory()[5] = std::byte{1};
  pool.GiveBack(std::move(*large), true);
  large = pool.Take(16384);
  ASSERT_TRUE(large.ok());
  EXPECT_EQ((*large)->memory()[5], std::byte{1}) << "kept: nothing else is idle";
}

}  // namespace
}  // namespace tfos::feed
