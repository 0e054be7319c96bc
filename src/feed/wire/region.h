#ifndef TFOS_FEED_WIRE_REGION_H_
#define TFOS_FEED_WIRE_REGION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/memory/shared_memory.h"
#include "base/process/unique_fd.h"
#include "base/thread/mutex.h"
#include "tfos/status.h"

namespace tfos::feed {

/// A second mapping of a whole region, for its consumer only.
class PrivateMapping;

/// Some bytes of a region that the consumer can keep. As long as nothing else is done they are the
/// feeder's memory, without a copy. After Detach they are the consumer's own, at the same address.
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
  /// Fails when the system has no memory for the copies; then nothing is detached.
  Status Detach();

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
  /// Several threads may do so.
  Result<PrivateView> MapPrivately(std::span<const std::byte> bytes) TFOS_EXCLUDES(mutex_);
  /// Sees that the first `bytes` bytes can be touched, which they may not be otherwise
  /// (SharedMemory::Allocate). One thread at a time.
  Status Allocate(std::uint64_t bytes);
  /// Gives the pages behind the first `used` bytes, rounded up to whole pages, back to the system.
  /// The memory stays mapped on both sides, and pages are to be allocated anew before they are
  /// touched. Returns how many bytes are left; all of them where the kernel can't do it. Not while
  /// another thread allocates.
  std::uint64_t Trim(std::uint64_t used);
  /// The size of `memory()`.
  std::uint64_t bytes() const { return memory_.size(); }
  std::atomic_ref<std::uint64_t> read_position() const;
  int fd() const { return shared_.fd(); }

 private:
  /// `shared` is the memory and the page behind it.
  explicit Region(SharedMemory shared);

  SharedMemory shared_;
  std::span<std::byte> memory_;
  std::uint64_t allocated_ = 0;  ///< Bytes from the start, as far as this end knows.
  Mutex mutex_;
  std::shared_ptr<PrivateMapping> private_ TFOS_GUARDED_BY(mutex_);  ///< Null until wanted.
};

/// Makes regions, and keeps those that came back in order for the next user, with their
/// pages.
///
/// Owner and lifetime: owns the kept regions, shares none of those. Threads: any; no system call is
/// made under its lock, and none waits for another's. Units: bytes.
class RegionPool {
 public:
  /// How new memory is got. Tests give another.
  using Source = std::function<Result<std::unique_ptr<Region>>(std::uint64_t bytes)>;

  explicit RegionPool(Source source = &Region::Create) : source_(std::move(source)) {}

  /// A region of at least `bytes`. Others are kept as far as they fit into `spare` bytes.
  Result<std::shared_ptr<Region>> Take(std::uint64_t bytes, std::uint64_t spare);
  /// Keeps the region if it fits, with those kept already, into `spare` bytes. Its feeder is done
  /// with it, and nobody else uses it.
  void GiveBack(std::shared_ptr<Region> region, std::uint64_t spare) TFOS_EXCLUDES(mutex_);

 private:
  /// Null: none that is kept is of that size.
  std::shared_ptr<Region> TakeKept(std::uint64_t bytes) TFOS_REQUIRES(mutex_);

  const Source source_;
  Mutex mutex_;
  std::uint64_t kept_bytes_ TFOS_GUARDED_BY(mutex_) = 0;
  std::vector<std::shared_ptr<Region>> kept_ TFOS_GUARDED_BY(mutex_);
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_WIRE_REGION_H_
