#include "base/memory/buffer_pool.h"

#include <iterator>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/memory/aligned_buffer.h"

namespace tfos {
namespace {

// Below this the heap has pages of its own at hand.
constexpr std::size_t kSmallestKeptBytes = std::size_t{64} << 10;
// A buffer is used for as little as a quarter of its size.
constexpr std::size_t kMostWaste = 4;
// Some more is allocated than asked for: what comes next is alike, but rarely of the same size.
constexpr std::size_t kSpareShare = 8;

}  // namespace

struct BufferPool::Kept {
  std::mutex mutex;
  std::vector<AlignedBuffer> buffers;  ///< The oldest first. Guarded by the mutex, as is `bytes`.
  std::size_t bytes = 0;
  bool closed = false;  ///< The pool is gone: nobody takes anything any more.

  /// The smallest that has room and is not far too large; an empty one if there is none. Of equal
  /// ones that which was used last: most of it may be in a cache.
  AlignedBuffer Take(std::size_t wanted) {
    const std::lock_guard lock(mutex);
    auto best = buffers.end();
    for (auto it = buffers.begin(); it != buffers.end(); ++it) {
      const bool fits = it->size() >= wanted && it->size() / kMostWaste <= wanted;
      if (fits && (best == buffers.end() || it->size() <= best->size())) best = it;
    }
    if (best == buffers.end()) return AlignedBuffer();
    AlignedBuffer taken = std::move(*best);
    buffers.erase(best);
    bytes -= taken.size();
    return taken;
  }

  /// Frees the buffer instead where it could not be of use.
  void Keep(AlignedBuffer buffer) {
    std::vector<AlignedBuffer> dropped;  // Freed without the lock.
    const std::lock_guard lock(mutex);
    // One as large would drive out all others.
    if (closed || buffer.size() > kMostKeptBytes) return;
    const std::size_t size = buffer.size();
    buffers.push_back(std::move(buffer));
    bytes += size;  // Only now: the line before may throw.
    auto last = buffers.begin();
    for (; bytes > kMostKeptBytes && last != buffers.end(); ++last) bytes -= last->size();
    dropped.assign(std::make_move_iterator(buffers.begin()), std::make_move_iterator(last));
    buffers.erase(buffers.begin(), last);
  }

  void Close() {
    std::vector<AlignedBuffer> dropped;
    const std::lock_guard lock(mutex);
    closed = true;
    bytes = 0;
    dropped.swap(buffers);
  }
};

PooledBuffer AllocateBuffer(std::size_t bytes) {
  auto memory = std::make_shared<AlignedBuffer>(bytes);
  if (memory->size() == 0) return {};
  const std::span<std::byte> room = memory->bytes();
  return {.bytes = room, .memory = std::move(memory)};
}

BufferPool::BufferPool() : kept_(std::make_shared<Kept>()) {}
BufferPool::~BufferPool() { kept_->Close(); }

PooledBuffer BufferPool::Allocate(std::size_t bytes) {
  if (bytes < kSmallestKeptBytes) return AllocateBuffer(bytes);
  // Its last user puts the buffer back, whoever and on whatever thread that is.
  struct Used {
    std::shared_ptr<Kept> kept;
    AlignedBuffer buffer;

    Used(std::shared_ptr<Kept> of, AlignedBuffer taken)
        : kept(std::move(of)), buffer(std::move(taken)) {}
    ~Used() {
      try {
        if (buffer.size() != 0) kept->Keep(std::move(buffer));
      } catch (const std::bad_alloc&) {
        // There is no memory to note it down: freeing it is better anyway.
      }
    }
    Used(const Used&) = delete;
    Used& operator=(const Used&) = delete;
  };
  AlignedBuffer buffer = kept_->Take(bytes);
  if (buffer.size() == 0) buffer = AlignedBuffer(bytes + bytes / kSpareShare);
  auto memory = std::make_shared<Used>(kept_, std::move(buffer));
  if (memory->buffer.size() == 0) return {};
  const std::span<std::byte> room = memory->buffer.bytes().first(bytes);
  return {.bytes = room, .memory = std::move(memory)};
}

std::size_t BufferPool::kept_bytes() const {
  const std::lock_guard lock(kept_->mutex);
  return kept_->bytes;
}

}  // namespace tfos
