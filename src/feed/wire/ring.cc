#include "feed/wire/ring.h"

#include <algorithm>

#include "base/memory/aligned_buffer.h"

namespace tfos::feed {

Ring::FreeSpace Ring::Free() const {
  if (blocks_.empty()) return {.ahead = {0, capacity_}, .behind = {}};
  const Block& oldest = blocks_.front();
  const Block& newest = blocks_.back();
  if (newest.begin < oldest.begin) return {.ahead = {newest.end, oldest.begin}, .behind = {}};
  return {.ahead = {newest.end, capacity_}, .behind = {0, oldest.begin}};
}

std::optional<std::uint64_t> Ring::Find(std::uint64_t bytes) const {
  const FreeSpace free = Free();
  if (free.ahead.end - free.ahead.begin >= bytes) return free.ahead.begin;
  if (free.behind.end >= bytes) return free.behind.begin;
  return std::nullopt;
}

std::uint64_t Ring::LargestFree() const {
  const FreeSpace free = Free();
  return std::max(free.ahead.end - free.ahead.begin, free.behind.end);
}

std::optional<std::uint64_t> Ring::Place(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0 || bytes > capacity_ || offset > capacity_ - bytes ||
      offset % kBufferAlignment != 0) {
    return std::nullopt;
  }
  const std::uint64_t end = offset + bytes;
  const FreeSpace free = Free();
  const auto contains = [&](const Extent& extent) {
    return offset >= extent.begin && end <= extent.end;
  };
  if (!contains(free.ahead) && !contains(free.behind)) return std::nullopt;
  blocks_.push_back({offset, std::min(AlignUp(end, kBufferAlignment), capacity_)});
  used_ = std::max(used_, blocks_.back().end);
  return oldest_ + blocks_.size() - 1;
}

std::size_t Ring::Release(std::uint64_t number) {
  blocks_[number - oldest_].released = true;
  std::size_t freed = 0;
  while (!blocks_.empty() && blocks_.front().released) {
    blocks_.pop_front();
    ++oldest_;
    ++freed;
  }
  return freed;
}

bool Ring::ReleaseOldest(std::size_t count) {
  if (count > blocks_.size()) return false;
  blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(count));
  oldest_ += count;
  return true;
}

}  // namespace tfos::feed
