#include "feed/wire/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/format.h"
#include "base/logging.h"

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

/// Its pages are the region's but for those that Detach made the consumer's own. As chunks begin
/// and end within pages, such a page may hold the beginning of a later chunk as it was before that
/// was written; so whoever detaches anything ends the use of the mapping for further views.
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
    ::mprotect(address, region.bytes(), PROT_READ);
    return std::make_shared<PrivateMapping>(
        std::span(static_cast<std::byte*>(address), region.bytes()));
  }

  explicit PrivateMapping(std::span<std::byte> memory) : memory_(memory) {}
  ~PrivateMapping() { ::munmap(memory_.data(), memory_.size()); }
  PrivateMapping(const PrivateMapping&) = delete;
  PrivateMapping& operator=(const PrivateMapping&) = delete;

  std::span<const std::byte> memory() const { return memory_; }
  /// Whether no page is the consumer's own.
  bool pristine() const { return pristine_; }

  void Detach(std::span<const std::byte> bytes) {
    pristine_ = false;  // First: no view may be given out that the copies below do not know.
    ::mprotect(memory_.data(), memory_.size(), PROT_READ | PROT_WRITE);
    // A write makes the kernel copy the page. This one changes nothing, whoever reads meanwhile.
    const Extent pages = PagesOf(bytes);
    for (std::size_t at = pages.begin; at < pages.end; at += PageBytes()) {
      std::atomic_ref(reinterpret_cast<unsigned char&>(memory_[at])).fetch_or(0);
    }
  }

  /// Gives the copies of `bytes` back to the system, but for pages that others may be using too.
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

void PrivateView::Detach() {
  mapping_->Detach(bytes_);
  detached_ = true;
}

Region::Region(SharedMemory shared)
    : shared_(std::move(shared)),
      memory_(shared_.bytes().first(shared_.bytes().size() - PageBytes())),
      charged_bytes_(memory_.size()) {}

std::atomic_ref<std::uint64_t> Region::read_position() const {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory_.data() + memory_.size()));
}

Result<std::unique_ptr<Region>> Region::Create(std::uint64_t bytes) {
  if (bytes == 0 || bytes > kLargestRegion) {
    return Status(ErrorKind::kBadInput, fmt::format("a shared region of {} bytes", bytes));
  }
  TFOS_ASSIGN_OR_RETURN(SharedMemory shared,
                        SharedMemory::Create("tfos-feed", WholePages(bytes) + PageBytes()));
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

Status Region::Trim(std::uint64_t bytes) {
  const std::uint64_t kept = WholePages(bytes);
  if (kept >= charged_bytes_) return {};
  if (::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(kept),
                  static_cast<off_t>(memory_.size() - kept)) != 0) {
    return Status::FromErrno(errno, "give shared memory back");
  }
  charged_bytes_ = kept;
  return {};
}

Result<PrivateView> Region::MapPrivately(std::span<const std::byte> bytes) {
  if (private_ == nullptr || !private_->pristine()) {
    TFOS_ASSIGN_OR_RETURN(private_, PrivateMapping::Map(*this));
  }
  const auto offset = static_cast<std::size_t>(bytes.data() - memory_.data());
  return PrivateView(private_, private_->memory().subspan(offset, bytes.size()));
}

bool RegionPool::CanTake(std::uint64_t bytes) const {
  return in_use_ == 0 || (in_use_ <= budget_ && bytes <= budget_ - in_use_);
}

Result<std::unique_ptr<Region>> RegionPool::Take(std::uint64_t bytes) {
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    if ((*it)->bytes() >= bytes && (*it)->bytes() / 2 <= bytes &&
        (best == idle_.end() || (*it)->bytes() < (*best)->bytes())) {
      best = it;
    }
  }
  if (best != idle_.end()) {
    std::unique_ptr<Region> region = std::move(*best);
    idle_.erase(best);
    idle_bytes_ -= region->bytes();
    region->charged_bytes_ = region->bytes();
    in_use_ += region->bytes();
    return region;
  }
  while (!idle_.empty() && in_use_ + idle_bytes_ + bytes > budget_) {
    idle_bytes_ -= idle_.back()->bytes();
    idle_.pop_back();
  }
  TFOS_ASSIGN_OR_RETURN(std::unique_ptr<Region> region, Region::Create(bytes));
  in_use_ += region->bytes();
  return region;
}

void RegionPool::Trim(Region& region, std::uint64_t used) {
  const std::uint64_t before = region.charged_bytes_;
  // A kernel that can't do it leaves the pages, and they go on to count.
  if (const Status status = region.Trim(used); !status.ok()) {
    LogDebug("feed: {}", status.ToString());
  }
  in_use_ -= before - region.charged_bytes_;
}

void RegionPool::GiveBack(std::unique_ptr<Region> region, bool reusable) {
  in_use_ -= region->charged_bytes_;
  // Idle, it counts whole, trimmed or not: taken again it must not exceed the budget.
  const std::uint64_t bytes = region->bytes();
  if (!reusable || in_use_ + idle_bytes_ + bytes > budget_) return;
  idle_bytes_ += bytes;
  idle_.push_back(std::move(region));
}

}  // namespace tfos::feed
