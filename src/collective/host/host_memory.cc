#include "collective/host/host_memory.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/time/deadline.h"
#include "base/time/wait.h"

namespace tfos::collective {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr std::size_t kControlBytes = 4096;
/// Operations that a member can be ahead of another are fewer: each takes a chunk, and there are
/// so many slots.
constexpr std::size_t kDescriptions = 8;
static_assert(kDescriptions > HostMemory::kSlots + 1);
constexpr std::size_t kDescriptionBytes = Operation::kHeadBytes + Operation::kLongestName;
constexpr std::size_t kStages = 3;

/// Bounds of how long a member that waits keeps its processor. More than it takes another to copy
/// a chunk gains nothing; less than a wake-up takes (some microseconds) costs latency.
constexpr nanoseconds kLeastPatience = microseconds(2);
constexpr nanoseconds kMostPatience = microseconds(100);
/// Looks between two readings of the clock.
constexpr int kLooks = 16;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Sleeps while `word` is `value`, for at most `kCheckInterval`.
void Sleep(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  timespec bound{};
  bound.tv_nsec = std::chrono::nanoseconds(kCheckInterval).count();
  static_assert(kCheckInterval < std::chrono::seconds(1));
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &bound, nullptr, 0);
}

void WakeAll(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::size_t Processors() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  return static_cast<std::size_t>(CPU_COUNT(&allowed));
}

}  // namespace

/// One member's state: it alone writes here, except `sleepers`. An anonymous file begins as zeros.
struct HostMemory::Control {
  alignas(64) std::atomic<std::uint32_t> events;  ///< Changes whenever something else here does.
  std::atomic<std::uint32_t> sleepers;            ///< How many wait for that; or died doing so.
  std::atomic<std::uint64_t> begun;               ///< Number of the operations begun.
  std::array<std::atomic<std::uint64_t>, kStages> chunks;  ///< The last one that came so far.
  std::atomic<std::uint32_t> left;
  std::atomic<std::uint32_t> failed;
  std::atomic<std::uint64_t> waiting_in;  ///< Number of the operation, plus 1.
  std::atomic<std::uint32_t> waits_for;
  struct Description {
    std::atomic<std::uint32_t> bytes;
    std::array<std::byte, kDescriptionBytes> text;  ///< As the body of an OPERATION frame.

    /// As it is now, in memory that its member can't write to.
    std::vector<std::byte> Copy() const {
      const std::size_t size = std::min<std::size_t>(bytes.load(), kDescriptionBytes);
      std::vector<std::byte> copy(size);
      if (size > 0) std::memcpy(copy.data(), text.data(), size);
      return copy;
    }
  };
  alignas(64) std::array<Description, kDescriptions> descriptions;
};

HostMemory::HostMemory(SharedMemory memory, std::size_t members, std::size_t rank)
    : memory_(std::move(memory)),
      members_(members),
      rank_(rank),
      crowded_(members > Processors()),
      agreed_(members),
      told_(members),
      patience_(crowded_ ? kLeastPatience : kMostPatience) {
  static_assert(sizeof(Control) <= kControlBytes);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
}

std::size_t HostMemory::BytesFor(std::size_t members) {
  return members * (kControlBytes + kSlots * kSlotBytes);
}

Result<std::unique_ptr<HostMemory>> HostMemory::Create(std::size_t members) {
  TFOS_ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Create("tfos-tensors", BytesFor(members),
                                                                  SharedMemory::Writers::kAll));
  TFOS_RETURN_IF_ERROR(memory.Allocate(0, BytesFor(members)));
  return std::unique_ptr<HostMemory>(new HostMemory(std::move(memory), members, 0));
}

Result<std::unique_ptr<HostMemory>> HostMemory::Map(UniqueFd fd, std::size_t members,
                                                    std::size_t rank) {
  TFOS_ASSIGN_OR_RETURN(SharedMemory memory,
                        SharedMemory::Map(std::move(fd), BytesFor(members), /*writable=*/true));
  memory.CloseFd();
  return std::unique_ptr<HostMemory>(new HostMemory(std::move(memory), members, rank));
}

HostMemory::Control& HostMemory::ControlOf(std::size_t member) const {
  return *reinterpret_cast<Control*>(memory_.bytes().data() + member * kControlBytes);
}

std::span<std::byte> HostMemory::SlotOf(std::size_t member, std::uint64_t chunk) const {
  return memory_.bytes().subspan(
      members_ * kControlBytes + (member * kSlots + chunk % kSlots) * kSlotBytes, kSlotBytes);
}

void HostMemory::Ring() {
  Control& own = ControlOf(rank_);
  own.events.fetch_add(1);
  if (own.sleepers.load() > 0) WakeAll(own.events);
}

void HostMemory::Begin(const Operation& operation) {
  operation_ = operation;
  waited_ = 0;
  agreed_.assign(members_, false);
  told_.assign(members_, false);
  Control& own = ControlOf(rank_);
  Control::Description& description = own.descriptions[operation.number % kDescriptions];
  const std::string text = operation.Encode();
  std::memcpy(description.text.data(), text.data(), text.size());
  description.bytes.store(static_cast<std::uint32_t>(text.size()));
  own.begun.store(operation.number + 1);
  Ring();
}

Result<std::optional<Operation>> HostMemory::Find(std::uint64_t number) const {
  for (std::size_t member = 0; member < members_; ++member) {
    const Control& other = ControlOf(member);
    const std::uint64_t begun = other.begun.load();
    if (member == rank_ || begun <= number || begun - number >= kDescriptions) continue;
    auto found = Operation::Parse(other.descriptions[number % kDescriptions].Copy());
    if (found.ok()) return std::optional(std::move(found).value());
    return Status(found.status().kind(),
                  fmt::format("{} begins {}", watch_->NameOf(member), found.status().message()));
  }
  return std::optional<Operation>();
}

void HostMemory::Publish(Stage stage, std::uint64_t chunk) {
  ControlOf(rank_).chunks[static_cast<std::size_t>(stage)].store(chunk);
  Ring();
}

Status HostMemory::Await(std::size_t member, Stage stage, std::uint64_t chunk) {
  const Control& other = ControlOf(member);
  if (!agreed_[member]) {
    const auto has_begun = [&] { return other.begun.load() > operation_.number; };
    TFOS_RETURN_IF_ERROR(WaitFor(member, has_begun, &waited_));
    TFOS_RETURN_IF_ERROR(Compare(member));
    agreed_[member] = true;
  }
  const auto& reached = other.chunks[static_cast<std::size_t>(stage)];
  return WaitFor(member, [&] { return reached.load() >= chunk; });
}

Status HostMemory::AwaitAll(Stage stage, std::uint64_t chunk) {
  for (std::size_t member = 0; member < members_; ++member) {
    if (member != rank_) TFOS_RETURN_IF_ERROR(Await(member, stage, chunk));
  }
  return {};
}

Status HostMemory::AwaitFree(std::uint64_t chunk) {
  if (chunk <= kSlots) return {};
  for (std::size_t member = 0; member < members_; ++member) {
    if (member == rank_) continue;
    // It may be at an earlier operation yet.
    const auto& done = ControlOf(member).chunks[static_cast<std::size_t>(Stage::kDone)];
    TFOS_RETURN_IF_ERROR(WaitFor(member, [&] { return done.load() >= chunk - kSlots; }));
  }
  return {};
}

Status HostMemory::Compare(std::size_t member) {
  const Control& other = ControlOf(member);
  const auto text = other.descriptions[operation_.number % kDescriptions].Copy();
  const std::string own = operation_.Encode();
  if (std::ranges::equal(text, std::as_bytes(std::span(own)))) return {};
  TFOS_ASSIGN_OR_RETURN(const Operation theirs, Operation::Parse(text));
  return OtherOperation(watch_->NameOf(member), theirs, operation_);
}

Status HostMemory::WaitFor(std::size_t member, const std::function<bool()>& reached,
                           std::atomic<Clock::Duration::rep>* meter) {
  if (reached()) return {};
  Control& other = ControlOf(member);
  const Clock::TimePoint begin = Clock::Steady().Now();
  const Clock::Duration::rep before = meter == nullptr ? 0 : meter->load();
  const auto count = [&](Clock::TimePoint now) {
    if (meter != nullptr) meter->store(before + (now - begin).count());
  };
  if (patience_ > nanoseconds::zero()) {
    const Clock::TimePoint until = begin + patience_;
    do {
      for (int look = 0; look < kLooks; ++look) {
        if (reached()) {
          if (meter != nullptr) count(Clock::Steady().Now());
          patience_ = std::min(patience_ * 2, crowded_ ? kLeastPatience : kMostPatience);
          return {};
        }
        Pause();
      }
      if (crowded_) ::sched_yield();
    } while (Clock::Steady().Now() < until);
    // A member that has not come by now has something to do for which it may need this processor.
    patience_ = std::max(patience_ / 2, kLeastPatience);
  }
  Clock::TimePoint asked = begin;
  other.sleepers.fetch_add(1);
  Status status;
  while (true) {
    const std::uint32_t seen = other.events.load();
    if (reached()) break;
    if (other.left.load() != 0 && !told_[member]) {
      told_[member] = true;
      if (status = watch_->OnLeft(member); !status.ok()) break;
    }
    const Clock::TimePoint now = Clock::Steady().Now();
    count(now);
    if (other.failed.load() != 0 || now - asked >= kCheckInterval) {
      asked = now;
      // It may have come so far just before it ended.
      if (status = watch_->OnWait(member, now - begin); !status.ok()) {
        if (reached()) status = {};
        break;
      }
    }
    Sleep(other.events, seen);
  }
  other.sleepers.fetch_sub(1);
  if (meter != nullptr) count(Clock::Steady().Now());
  return status;
}

void HostMemory::TellLeft() {
  ControlOf(rank_).left.store(1);
  Ring();
}

Status HostMemory::TellThoseWhoLeft() {
  for (std::size_t member = 0; member < members_; ++member) {
    if (member == rank_ || told_[member] || ControlOf(member).left.load() == 0) continue;
    told_[member] = true;
    TFOS_RETURN_IF_ERROR(watch_->OnLeft(member));
  }
  return {};
}

void HostMemory::TellFailed() {
  ControlOf(rank_).failed.store(1);
  Ring();
}

void HostMemory::TellWaiting(std::uint32_t for_whom) {
  Control& own = ControlOf(rank_);
  own.waits_for.store(for_whom);
  own.waiting_in.store(operation_.number + 1);
}

std::optional<std::uint32_t> HostMemory::WaitsFor(std::size_t member) const {
  const Control& other = ControlOf(member);
  if (other.waiting_in.load() != operation_.number + 1) return std::nullopt;
  return other.waits_for.load();
}

}  // namespace tfos::collective
