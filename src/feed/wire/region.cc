#include "feed/wire/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/memory/aligned_buffer.h"
#include "base/memory/private_pages.h"

namespace tfos::feed {
namespace {

/// More than any address space; keeps the arithmetic far from overflow.
constexpr std::uint64_t kLargestRegion = std::uint64_t{1} << 46;

std::size_t PageBytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::uint64_t WholePages(std::uint64_t bytes) { return AlignUp(bytes, PageBytes()); }

}  // namespace

/// Its pages are the region's, except those that Detach made the consumer's own. As chunks begin
/// and end within pages, such a page may hold the beginning of a later chunk as it was before that
/// was written. So whoever detaches anything ends the use of the mapping for further views.
class PrivateMapping {
 public:
  static Result<std::shared_ptr<PrivateMapping>> Map(const Region& region) {
    // Asked for as writable so that memory which it can't have is refused here, not in Detach.
    void* address =
        ::mmap(nullptr, region.bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE, region.fd(), 0);
    if (address == MAP_FAILED) {
      return Status::FromErrno(errno,
                               fmt::format("map {} bytes of shared memory again", region.bytes()));
    }
    auto mapping = std::make_shared<PrivateMapping>(
        std::span(static_cast<std::byte*>(address), region.bytes()));
    if (::mprotect(address, region.bytes(), PROT_READ) != 0) {
      return Status::FromErrno(errno, "protect a second mapping of shared memory");
    }
    return mapping;
  }

  explicit PrivateMapping(std::span<std::byte> memory) : memory_(memory) {}
  ~PrivateMapping() { ::munmap(memory_.data(), memory_.size()); }
  PrivateMapping(const PrivateMapping&) = delete;
  PrivateMapping& operator=(const PrivateMapping&) = delete;

  std::span<const std::byte> memory() const { return memory_; }
  /// Whether no page is the consumer's own.
  bool pristine() const { return pristine_; }

  Status Detach(std::span<const std::byte> bytes) TFOS_EXCLUDES(mutex_) {
    const Extent pages = PagesOf(bytes);
    std::byte* const begin = memory_.data() + pages.begin;
    const std::size_t size = pages.end - pages.begin;
    // Views may share a page at their borders: one must not forbid writing while another copies.
    const MutexLock lock(mutex_);
    pristine_ = false;  // First: no view may be given out that the copies below do not know.
    if (::mprotect(begin, size, PROT_READ | PROT_WRITE) != 0) {
      return Status::FromErrno(errno, "make a view of shared memory writable");
    }
    Status status = CopyPrivatePages({begin, size});
    // A write to a view ends the process. If this fails, nothing changes for the others.
    if (::mprotect(begin, size, PROT_READ) != 0 && status.ok()) {
      status = Status::FromErrno(errno, "protect a view of shared memory");
    }
    return status;
  }

  /// Gives the copies of `bytes` back to the system, except pages that others may be using too.
  void Forget(std::span<const std::byte> bytes) {
    const Extent pages = PagesOf(bytes);
    const std::size_t inner = pages.begin + PageBytes();
    if (inner + PageBytes() < pages.end) {
      ::madvise(memory_.data() + inner, pages.end - PageBytes() - inner, MADV_DONTNEED);
    }
  }

 private:
  struct Extent {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  Extent PagesOf(std::span<const std::byte> bytes) const {
    const auto begin = static_cast<std::size_t>(bytes.data() - memory_.data());
    return {begin / PageBytes() * PageBytes(), AlignUp(begin + bytes.size(), PageBytes())};
  }

  const std::span<std::byte> memory_;
  Mutex mutex_;  ///< Held by the one that copies.
  std::atomic<bool> pristine_ = true;
};

PrivateView::PrivateView(PrivateView&& other) noexcept { *this = std::move(other); }

PrivateView& PrivateView::operator=(PrivateView&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(bytes_, other.bytes_);
  std::swap(detached_, other.detached_);
  return *this;
}

PrivateView::~PrivateView() {
  if (detached_) mapping_->Forget(bytes_);
}

Status PrivateView::Detach() {
  TFOS_RETURN_IF_ERROR(mapping_->Detach(bytes_).Annotate(
      fmt::format("keep {} bytes of a feeder's memory", bytes_.size())));
  detached_ = true;
  return {};
}

Region::Region(SharedMemory shared)
    : shared_(std::move(shared)),
      memory_(shared_.bytes().first(shared_.bytes().size() - PageBytes())) {}

std::atomic_ref<std::uint64_t> Region::read_position() const {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory_.data() + memory_.size()));
}

Result<std::unique_ptr<Region>> Region::Create(std::uint64_t bytes) {
  if (bytes == 0 || bytes > kLargestRegion) {
    return Status(ErrorKind::kBadInput, fmt::format("a shared region of {} bytes", bytes));
  }
  TFOS_ASSIGN_OR_RETURN(SharedMemory shared,
                        SharedMemory::Create("tfos-feed", WholePages(bytes) + PageBytes(),
                                             SharedMemory::Writers::kAll));
  // The page behind, which both ends touch. The feeder sees to the others as it needs them.
  TFOS_RETURN_IF_ERROR(shared.Allocate(WholePages(bytes), PageBytes()));
  return std::unique_ptr<Region>(new Region(std::move(shared)));
}

Result<std::unique_ptr<Region>> Region::Map(UniqueFd fd, std::uint64_t bytes) {
  if (bytes == 0 || bytes > kLargestRegion || bytes % PageBytes() != 0) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("the node gives {} bytes of shared memory", bytes));
  }
  auto shared = SharedMemory::Map(std::move(fd), bytes + PageBytes(), /*writable=*/true);
  if (!shared.ok()) return shared.status().Annotate("take the node's shared memory");
  return std::unique_ptr<Region>(new Region(std::move(shared).value()));
}

Status Region::Allocate(std::uint64_t bytes) {
  if (bytes <= allocated_) return {};
  TFOS_RETURN_IF_ERROR(shared_.Allocate(allocated_, bytes - allocated_));
  allocated_ = bytes;
  return {};
}

std::uint64_t Region::Trim(std::uint64_t used) {
  const std::uint64_t kept = WholePages(used);
  if (kept >= memory_.size()) return memory_.size();
  if (::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(kept),
                  static_cast<off_t>(memory_.size() - kept)) != 0) {
    LogDebug("feed: {}", Status::FromErrno(errno, "give shared memory back").ToString());
    return memory_.size();
  }
  allocated_ = std::min(allocated_, kept);
  return kept;
}

Result<PrivateView> Region::MapPrivately(std::span<const std::byte> bytes) {
  const MutexLock lock(mutex_);
  if (private_ == nullptr || !private_->pristine()) {
    TFOS_ASSIGN_OR_RETURN(private_, PrivateMapping::Map(*this));
  }
  const auto offset = static_cast<std::size_t>(bytes.data() - memory_.data());
  return PrivateView(private_, private_->memory().subspan(offset, bytes.size()));
}

std::shared_ptr<Region> RegionPool::TakeKept(std::uint64_t bytes) {
  auto best = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if ((*it)->bytes() >= bytes && (*it)->bytes() / 2 <= bytes &&
        (best == kept_.end() || (*it)->bytes() < (*best)->bytes())) {
      best = it;
    }
  }
  if (best == kept_.end()) return nullptr;
  std::shared_ptr<Region> region = std::move(*best);
  kept_.erase(best);
  kept_bytes_ -= region->bytes();
  return region;
}

Result<std::shared_ptr<Region>> RegionPool::Take(std::uint64_t bytes, std::uint64_t spare) {
  std::vector<std::shared_ptr<Region>> dropped;  // Unmapped after the lock.
  {
    const MutexLock lock(mutex_);
    if (std::shared_ptr<Region> kept = TakeKept(bytes); kept != nullptr) return kept;
    while (kept_bytes_ > spare) {
      kept_bytes_ -= kept_.back()->bytes();
      dropped.push_back(std::move(kept_.back()));
      kept_.pop_back();
    }
  }
  dropped.clear();  // Before the new one takes memory.
  TFOS_ASSIGN_OR_RETURN(std::unique_ptr<Region> region, source_(bytes));
  return std::shared_ptr<Region>(std::move(region));
}

void RegionPool::GiveBack(std::shared_ptr<Region> region, std::uint64_t spare) {
  const std::uint64_t bytes = region->bytes();
  const MutexLock lock(mutex_);  // Released before `region`, if that is not kept.
  if (kept_bytes_ > spare || bytes > spare - kept_bytes_) return;
  kept_.push_back(std::move(region));
  kept_bytes_ += bytes;
}

}  // namespace tfos::feed
