#include "base/memory/buffer_pool.h"

#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "base/memory/aligned_buffer.h"
#include "base/thread/mutex.h"

namespace tfos {
namespace {

// Below this the heap has pages of its own at hand.
constexpr std::size_t kSmallestKeptBytes = std::size_t{64} << 10;
// A buffer is used for as little as a quarter of its size.
constexpr std::size_t kMostWaste = 4;
// Some more is allocated than asked for: what comes next is alike, but rarely of the same size.
constexpr std::size_t kSpareShare = 8;

}  // namespace

class BufferPool::Kept {
 public:
  /// The smallest that has room and is not far too large; an empty one if there is none. Of equal
  /// ones that which was used last: most of it may be in a cache.
  AlignedBuffer Take(std::size_t wanted) {
    const MutexLock lock(mutex_);
    auto best = buffers_.end();
    for (auto it = buffers_.begin(); it != buffers_.end(); ++it) {
      const bool fits = it->size() >= wanted && it->size() / kMostWaste <= wanted;
      if (fits && (best == buffers_.end() || it->size() <= best->size())) best = it;
    }
    if (best == buffers_.end()) return AlignedBuffer();
    AlignedBuffer taken = std::move(*best);
    buffers_.erase(best);
    bytes_ -= taken.size();
    return taken;
  }

  /// Frees the buffer instead where it could not be of use.
  void Keep(AlignedBuffer buffer) {
    std::vector<AlignedBuffer> dropped;  // Freed without the lock.
    const MutexLock lock(mutex_);
    // One as large would drive out all others.
    if (closed_ || buffer.size() > kMostKeptBytes) return;
    std::size_t kept = bytes_ + buffer.size();
    auto last = buffers_.begin();
    for (; kept > kMostKeptBytes; ++last) kept -= last->size();
    // This and the last push may throw: `bytes_` is what `buffers_` has whenever they do.
    dropped.assign(std::make_move_iterator(buffers_.begin()), std::make_move_iterator(last));
    buffers_.erase(buffers_.begin(), last);
    bytes_ = kept - buffer.size();
    buffers_.push_back(std::move(buffer));
    bytes_ = kept;
  }

  void Close() {
    std::vector<AlignedBuffer> dropped;
    const MutexLock lock(mutex_);
    closed_ = true;
    bytes_ = 0;
    dropped.swap(buffers_);
  }

  std::size_t bytes() const {
    const MutexLock lock(mutex_);
    return bytes_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<AlignedBuffer> buffers_ TFOS_GUARDED_BY(mutex_);  ///< The oldest first.
  std::size_t bytes_ TFOS_GUARDED_BY(mutex_) = 0;
  /// The pool is gone: nobody takes anything any more.
  bool closed_ TFOS_GUARDED_BY(mutex_) = false;
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

std::size_t BufferPool::kept_bytes() const { return kept_->bytes(); }

}  // namespace tfos
