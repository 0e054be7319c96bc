#ifndef TFOS_FEED_WIRE_REGION_H_
#define TFOS_FEED_WIRE_REGION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/shared_memory.h"
#include "base/unique_fd.h"
#include "tfos/status.h"

namespace tfos::feed {

/// A second mapping of a whole region, for its consumer only.
class PrivateMapping;

/// Some bytes of a region that the consumer can keep: as long as nothing else is done they are the
/// feeder's memory, without a copy; after Detach they are the consumer's own, at the same address.
///
/// Owner and lifetime: move-only; shares its mapping, not the Region, which may go before.
/// Threads: any may read the bytes, also while one calls Detach. Nobody may write to them: that
/// ends the process, as it would else be seen in what is read later. Units: bytes. Cost: the pages
/// stay mapped from one view to the next, so a view costs no system call.
class PrivateView {
 public:
  PrivateView() = default;
  PrivateView(PrivateView&& other) noexcept;
  PrivateView& operator=(PrivateView&& other) noexcept;
  ~PrivateView();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Copies what is not yet the consumer's own, page by page and in place. Whatever the feeder
  /// writes to its memory from then on is not seen here.
  void Detach();

 private:
  friend class Region;
  PrivateView(std::shared_ptr<PrivateMapping> mapping, std::span<const std::byte> bytes)
      : mapping_(std::move(mapping)), bytes_(bytes) {}

  std::shared_ptr<PrivateMapping> mapping_;
  std::span<const std::byte> bytes_;
  bool detached_ = false;
};

/// Memory that a node and one feeder share: an anonymous file, mapped. It needs no /dev/shm and
/// leaves nothing behind. A page of its own behind the memory holds the word in which the node says
/// how far its program has read (ReadPosition).
///
/// Owner and lifetime: unmaps on destruction; the pages go when both sides have unmapped.
/// Threads: as for plain memory. Units: bytes, a multiple of the page size.
class Region {
 public:
  /// New memory, whose size can't be changed by anybody afterwards: a feeder that shrank it would
  /// kill the node with SIGBUS.
  static Result<std::unique_ptr<Region>> Create(std::uint64_t bytes);
  /// Maps what the other side created. Fails with kBadInput unless it is `bytes` large and sealed.
  static Result<std::unique_ptr<Region>> Map(UniqueFd fd, std::uint64_t bytes);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::span<std::byte> memory() const { return memory_; }
  /// A view of `bytes`, which lie in `memory()` and are complete: the feeder writes to them only
  /// when the view is detached or gone. It keeps their alignment up to a page.
  Result<PrivateView> MapPrivately(std::span<const std::byte> bytes);
  /// Of `memory()`.
  std::uint64_t bytes() const { return memory_.size(); }
  std::atomic_ref<std::uint64_t> read_position() const;
  int fd() const { return shared_.fd(); }

 private:
  friend class RegionPool;

  /// `shared` is the memory and the page behind it.
  explicit Region(SharedMemory shared);

  /// Gives the pages behind the first `bytes` bytes, rounded up to whole pages, back to the
  /// system. The memory stays mapped on both sides: whoever touches it gets fresh pages.
  Status Trim(std::uint64_t bytes);

  SharedMemory shared_;
  std::span<std::byte> memory_;
  std::shared_ptr<PrivateMapping> private_;  ///< Null until wanted.
  std::uint64_t charged_bytes_;  ///< What it counts for in a pool: less than all when trimmed.
};

/// Hands out regions within a budget and keeps those that came back in order, with their pages.
///
/// Owner and lifetime: owns the idle regions. Threads: one at a time. Units: bytes.
class RegionPool {
 public:
  explicit RegionPool(std::uint64_t budget) : budget_(budget) {}

  /// Whether Take of `bytes` stays within the budget. A region larger than the budget passes
  /// while no other is in use.
  bool CanTake(std::uint64_t bytes) const;
  /// A region of at least `bytes`, whatever the budget says: ask CanTake before.
  Result<std::unique_ptr<Region>> Take(std::uint64_t bytes);
  /// `reusable`: the feeder is done with it and has not broken off.
  void GiveBack(std::unique_ptr<Region> region, bool reusable);

  /// The feeder of `region` is done and the node still reads the first `used` bytes: only they
  /// count from now on, and the memory behind them is free.
  void Trim(Region& region, std::uint64_t used);

  std::uint64_t bytes_in_use() const { return in_use_; }

 private:
  std::uint64_t budget_;
  std::uint64_t in_use_ = 0;
  std::uint64_t idle_bytes_ = 0;
  std::vector<std::unique_ptr<Region>> idle_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_WIRE_REGION_H_
