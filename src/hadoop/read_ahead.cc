#include "hadoop/read_ahead.h"

#include <algorithm>
#include <cstring>

namespace tfos::hadoop {

Result<std::size_t> ReadAhead::Read(std::uint64_t offset, std::span<std::byte> room) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return source_->ReadAt(offset, room);
  const std::size_t held = TakeFromWindow(offset, room);
  const bool sequential = offset == next_offset_;
  if (held == room.size()) {
    next_offset_ = offset + held;
    return held;
  }
  if (!sequential) {
    // The next one is sequential if it follows this one. The stream isn't needed before.
    next_offset_ = offset + room.size();
    next_window_ = kFirstWindow;
    lock.unlock();
    return source_->ReadAt(offset, room);
  }
  auto rest = ReadSequentially(offset + held, room.subspan(held));
  if (!rest.ok()) return rest;
  next_offset_ = offset + held + *rest;
  return held + *rest;
}

std::size_t ReadAhead::TakeFromWindow(std::uint64_t offset, std::span<std::byte> room) const {
  if (offset < window_start_ || offset >= window_start_ + window_bytes_) return 0;
  const auto begin = static_cast<std::size_t>(offset - window_start_);
  const std::size_t bytes = std::min(room.size(), window_bytes_ - begin);
  std::memcpy(room.data(), window_.data() + begin, bytes);
  return bytes;
}

Result<std::size_t> ReadAhead::ReadSequentially(std::uint64_t offset, std::span<std::byte> room) {
  if (room.size() >= kLargeRead) return source_->ReadStream(offset, room);
  TFOS_RETURN_IF_ERROR(FillWindow(offset));
  // Smaller than any window, so this is all of it, or the file ends here.
  std::size_t taken = TakeFromWindow(offset, room);
  if (taken < room.size() && window_bytes_ == window_.size()) {
    auto rest = source_->ReadStream(offset + taken, room.subspan(taken));
    if (!rest.ok()) return rest;
    taken += *rest;
  }
  return taken;
}

Status ReadAhead::FillWindow(std::uint64_t offset) {
  window_bytes_ = 0;
  window_start_ = offset;
  window_.resize(next_window_);
  next_window_ = std::min(next_window_ * 2, kLastWindow);
  auto read = source_->ReadStream(offset, window_);
  if (!read.ok()) return std::move(read).status();
  window_bytes_ = *read;
  return Status::Ok();
}

}  // namespace tfos::hadoop
