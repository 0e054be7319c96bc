#include "parameter_server/model/store.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/format.h"
#include "base/memory/memory_of_host.h"

namespace tfos::parameter_server {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
// The head of the memory, as words: the version, then from kFirstCounter on a counter for each
// block.
constexpr std::size_t kVersionWord = 0;
constexpr std::size_t kFirstCounter = 8;
/// Looks at a block that keeps changing before the reader makes room for others.
constexpr int kSpins = 64;

std::uint64_t Blocks(std::uint64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }

std::uint64_t HeadBytes(std::uint64_t bytes) {
  const std::uint64_t words = kFirstCounter + Blocks(bytes);
  return (words * sizeof(std::uint64_t) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

std::atomic_ref<std::uint64_t> WordOf(const SharedMemory& memory, std::size_t index) {
  return std::atomic_ref(reinterpret_cast<std::uint64_t*>(memory.bytes().data())[index]);
}

/// Copies bytes of a block that is read and changed at the same time. A reader does so between
/// two looks at the block's counter, and the store does so while the counter is odd.
///
/// To the C++ standard that is a data race: it asks for atomic words on both sides, as in H.-J.
/// Boehm, "Can Seqlocks Get Along with Programming Language Memory Models?", 2012. A loop over
/// them takes a third longer than memcpy for a block, or more, and Combine, which changes values
/// where they lie, would lose its vector instructions. The reader is otherwise as that paper has
/// it, with an acquire fence between the data and the second look, and the race is harmless:
/// - What a reader has copied is bytes, which it throws away if the counter has changed.
/// - The two are processes with mappings of their own: no compiler sees both sides, or may assume
///   that nobody else changes memory that others can reach.
/// - The fences of GCC and Clang order plain accesses as they do atomic ones, for the compiler and
///   for the processor.
void RacyCopy(std::span<const std::byte> from, std::byte* to) {
  std::memcpy(to, from.data(), from.size());
}

}  // namespace

std::uint64_t StoreMemoryBytes(std::uint64_t bytes) { return HeadBytes(bytes) + bytes; }

Result<std::unique_ptr<Store>> Store::Create(std::vector<Variable> share, const Rule& rule) {
  TFOS_RETURN_IF_ERROR(rule.Check(share));
  TFOS_ASSIGN_OR_RETURN(Layout layout, Layout::Of(std::move(share)));
  std::unique_ptr<Store> store(new Store(std::move(layout), rule));
  const std::uint64_t bytes = store->bytes();
  // A worker says how large the share is. All of it is touched sooner or later.
  const std::uint64_t needed = StoreMemoryBytes(bytes) + rule.slots() * bytes;
  if (const std::uint64_t most = MemoryOfHost(); needed > most) {
    return Status(ErrorKind::kNoResources,
                  fmt::format("a share of {} bytes takes {} with what its optimizer keeps, and the "
                              "parameter server's host has {} bytes of memory; use more parameter "
                              "servers",
                              bytes, needed, most));
  }
  TFOS_ASSIGN_OR_RETURN(store->memory_, SharedMemory::Create(kMemoryName, StoreMemoryBytes(bytes),
                                                             SharedMemory::Writers::kCreator));
  // The first worker gives values to all of it.
  TFOS_RETURN_IF_ERROR(store->memory_.Allocate(0, StoreMemoryBytes(bytes)));
  store->values_ = store->memory_.bytes().subspan(HeadBytes(bytes));
  for (std::size_t slot = 0; slot < rule.slots(); ++slot) store->slots_[slot].resize(bytes);
  return store;
}

std::atomic_ref<std::uint64_t> Store::Word(std::size_t index) const {
  return WordOf(memory_, index);
}

std::uint64_t Store::version() const { return Word(kVersionWord).load(); }

void Store::ClearSlots() {
  for (std::vector<std::byte>& slot : slots_) std::ranges::fill(slot, std::byte{0});
}

void Store::StartAt(std::uint64_t version) {
  started_ = true;
  pushes_ = version;
  Word(kVersionWord).store(version);
}

std::uint64_t Store::FinishPush() { return Word(kVersionWord).fetch_add(1) + 1; }

Status Store::CheckRange(std::uint64_t begin, std::uint64_t size) const {
  if (begin % kAlignment == 0 && size % kAlignment == 0 && begin <= bytes() &&
      size <= bytes() - begin) {
    return {};
  }
  return {ErrorKind::kBadInput,
          fmt::format("{} bytes from {} on are not part of a share of {}", size, begin, bytes())};
}

void Store::ChangeBlocks(std::uint64_t begin, std::uint64_t end,
                         const std::function<void(std::uint64_t, std::uint64_t)>& change) {
  while (begin < end) {
    const std::uint64_t block = begin / kBlockBytes;
    const std::uint64_t next = std::min(end, (block + 1) * kBlockBytes);
    const auto counter = Word(kFirstCounter + block);
    const std::uint64_t count = counter.load(std::memory_order_relaxed);
    counter.store(count + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    change(begin, next);
    counter.store(count + 2, std::memory_order_release);
    begin = next;
  }
}

Status Store::Push(std::uint64_t step, std::uint64_t begin, std::span<const std::byte> pushed) {
  TFOS_RETURN_IF_ERROR(CheckRange(begin, pushed.size()));
  const auto slot_of = [this](std::size_t slot, std::uint64_t at, std::uint64_t size) {
    return slots_[slot].empty() ? std::span<std::byte>()
                                : std::span(slots_[slot]).subspan(at, size);
  };
  ChangeBlocks(begin, begin + pushed.size(), [&](std::uint64_t from, std::uint64_t to) {
    for (const Layout::Part& part : layout_.PartsOf(from, to)) {
      Combine(rule_, step,
              {.dtype = part.dtype,
               .averaged = part.averaged,
               .pushed = pushed.subspan(part.begin - begin, part.bytes),
               .values = values_.subspan(part.begin, part.bytes),
               .slots = {slot_of(0, part.begin, part.bytes), slot_of(1, part.begin, part.bytes)}});
    }
  });
  return {};
}

std::span<std::byte> Store::Part(std::size_t part) {
  return part == 0 ? values_ : std::span(slots_[part - 1]);
}

Status Store::CheckPart(std::size_t part) const {
  if (part <= rule_.slots()) return {};
  return {ErrorKind::kBadInput, fmt::format("part {} was asked for, and this combiner or optimizer "
                                            "has parts 0 to {}",
                                            part, rule_.slots())};
}

Status Store::Write(std::size_t part, std::uint64_t begin, std::span<const std::byte> data) {
  TFOS_RETURN_IF_ERROR(CheckRange(begin, data.size()));
  TFOS_RETURN_IF_ERROR(CheckPart(part));
  const std::span<std::byte> all = Part(part);
  if (part > 0) {
    std::ranges::copy(data, all.begin() + static_cast<std::ptrdiff_t>(begin));
    return {};
  }
  ChangeBlocks(begin, begin + data.size(), [&](std::uint64_t from, std::uint64_t to) {
    RacyCopy(data.subspan(from - begin, to - from), all.data() + from);
  });
  return {};
}

Result<std::span<const std::byte>> Store::Read(std::size_t part, std::uint64_t begin,
                                               std::uint64_t size) const {
  TFOS_RETURN_IF_ERROR(CheckRange(begin, size));
  TFOS_RETURN_IF_ERROR(CheckPart(part));
  const std::span<const std::byte> all =
      part == 0 ? std::span<const std::byte>(values_) : std::span(slots_[part - 1]);
  return all.subspan(begin, size);
}

Result<StoreView> StoreView::Map(UniqueFd fd, std::uint64_t bytes) {
  StoreView view;
  TFOS_ASSIGN_OR_RETURN(view.memory_, SharedMemory::Map(std::move(fd), StoreMemoryBytes(bytes),
                                                        /*writable=*/false));
  return view;
}

std::uint64_t StoreView::version() const { return WordOf(memory_, kVersionWord).load(); }

Status StoreView::Copy(std::span<std::byte> to, const std::function<Status()>& check) const {
  const std::byte* const values = memory_.bytes().data() + HeadBytes(to.size());
  for (std::uint64_t begin = 0; begin < to.size(); begin += kBlockBytes) {
    const std::uint64_t bytes = std::min<std::uint64_t>(kBlockBytes, to.size() - begin);
    const auto counter = WordOf(memory_, kFirstCounter + begin / kBlockBytes);
    for (int looks = 1;; ++looks) {
      const std::uint64_t before = counter.load(std::memory_order_acquire);
      if (before % 2 == 0) {
        RacyCopy({values + begin, bytes}, to.data() + begin);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (counter.load(std::memory_order_relaxed) == before) break;
      }
      if (looks % kSpins == 0) {
        TFOS_RETURN_IF_ERROR(check());
        ::sched_yield();
      }
    }
  }
  return {};
}

}  // namespace tfos::parameter_server
