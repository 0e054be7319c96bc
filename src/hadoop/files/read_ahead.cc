#include "hadoop/files/read_ahead.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tfos::hadoop {

Result<std::size_t> ReadAhead::Read(std::uint64_t offset, std::span<std::byte> room) {
  const bool just_ended = just_ended_.exchange(false);
  auto read = ReadNow(offset, room);
  if (!read.ok() || *read == room.size()) return read;
  const std::uint64_t end = offset + *read;
  const bool again = end_.exchange(end) == end;
  if (!again || (just_ended && *read == 0)) {
    just_ended_ = *read > 0;
    return read;
  }
  auto more = source_->LookForMore(end);
  // After some bytes the next read tells of the failure: it looks again.
  if (!more.ok() && *read == 0) return std::move(more).status();
  if (!more.ok() || !*more) return read;
  auto rest = ReadNow(end, room.subspan(*read));
  if (!rest.ok()) return *read == 0 ? rest : read;
  const std::size_t done = *read + *rest;
  if (done < room.size()) {
    end_ = offset + done;
    just_ended_ = true;
  }
  return done;
}

Result<std::size_t> ReadAhead::ReadNow(std::uint64_t offset, std::span<std::byte> room) {
  if (!mutex_.TryLock()) return source_->ReadAt(offset, room);
  MutexLock lock(mutex_, std::adopt_lock);
  const std::size_t held = TakeFromWindow(offset, room);
  const bool sequential = offset == next_offset_;
  if (held == room.size()) {
    next_offset_ = offset + held;
    if (window_.ended && next_offset_ == window_.end()) BeginRun(next_offset_);
    return held;
  }
  if (!sequential) {
    // The next one is sequential if it follows this one. The stream isn't needed before.
    BeginRun(offset + room.size());
    lock.Unlock();
    return source_->ReadAt(offset, room);
  }
  auto rest = ReadSequentially(offset + held, room.subspan(held));
  if (!rest.ok()) return rest;
  next_offset_ = offset + held + *rest;
  if (held + *rest < room.size()) BeginRun(next_offset_);
  return held + *rest;
}

void ReadAhead::BeginRun(std::uint64_t offset) {
  next_offset_ = run_start_ = offset;
  next_window_ = kFirstWindow;
  thread_.Stop();
  // A small file, or the head of one, stays at hand for a reader that jumps about in it.
  if (window_.room.capacity() > kFirstWindow) window_ = {};
}

std::size_t ReadAhead::TakeFromWindow(std::uint64_t offset, std::span<std::byte> room) const {
  if (offset < window_.start || offset >= window_.end()) return 0;
  const auto begin = static_cast<std::size_t>(offset - window_.start);
  const std::size_t bytes = std::min(room.size(), window_.bytes - begin);
  std::memcpy(room.data(), window_.room.data() + begin, bytes);
  return bytes;
}

Result<std::size_t> ReadAhead::ReadSequentially(std::uint64_t offset, std::span<std::byte> room) {
  thread_.Join();
  std::size_t done = 0;
  while (done < room.size()) {
    const std::uint64_t from = offset + done;
    const std::span<std::byte> rest = room.subspan(done);
    if (rest.size() >= kLargeRead && !thread_.pending()) {
      TFOS_ASSIGN_OR_RETURN(const std::size_t read, source_->ReadStream(from, rest));
      if (read == rest.size()) ReadOn(from, from + read);
      return done + read;
    }
    TFOS_RETURN_IF_ERROR(NextWindow(from));
    const bool may_follow = !window_.ended;
    if (may_follow) ReadOn(from, window_.end());
    done += TakeFromWindow(from, rest);
    if (!may_follow) break;  // The file ends here.
  }
  return done;
}

Status ReadAhead::NextWindow(std::uint64_t offset) {
  if (thread_.pending()) {
    // Also when it is of no use, as the reader has jumped since: the stream is the thread's.
    const Status read = thread_.Take(window_);
    if (window_.start == offset) return read;
  }
  window_.room.resize(next_window_);
  next_window_ = std::min(next_window_ * 2, kLastWindow);
  return window_.Fill(*source_, offset);
}

void ReadAhead::ReadOn(std::uint64_t begin, std::uint64_t end) {
  if (begin != run_start_) thread_.Start(end, kLastWindow);
}

}  // namespace tfos::hadoop
