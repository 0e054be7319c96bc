#ifndef TFOS_RECORDS_EXAMPLE_VALUE_BUFFER_H_
#define TFOS_RECORDS_EXAMPLE_VALUE_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "base/memory/aligned_buffer.h"
#include "base/memory/buffer_pool.h"

namespace tfos::records {

/// Numbers or bytes that are appended one behind the other and then handed to Arrow. Unlike a
/// vector it does not initialise what is about to be written, and it starts at a multiple of 64
/// bytes, so that tensors can wrap it.
///
/// Owner and lifetime: move-only, owns its memory until it is taken; borrows the pool, or has none
/// and takes its memory from the heap. Threads: one at a time. Errors: `std::bad_alloc`. Units:
/// values.
template <typename T>
class ValueBuffer {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  ValueBuffer() = default;
  explicit ValueBuffer(BufferPool& pool) : pool_(&pool) {}
  ValueBuffer(ValueBuffer&&) = default;
  ValueBuffer& operator=(ValueBuffer&&) = default;

  std::size_t size() const { return size_; }
  T* data() { return reinterpret_cast<T*>(buffer_.bytes.data()); }
  const T* data() const { return reinterpret_cast<const T*>(buffer_.bytes.data()); }

  /// Room for `count` more values, which the caller writes.
  T* Extend(std::size_t count) {
    if (count > capacity_ - size_) Grow(size_ + count);
    T* const room = data() + size_;
    size_ += count;
    return room;
  }
  void Append(T value) { *Extend(1) = value; }

  /// There will be about so many values: the next growth makes room for all of them.
  void Expect(std::size_t count) { expected_ = count; }

  /// Drops what is behind the first `size` values.
  void Truncate(std::size_t size) { size_ = size; }

  /// Gives the values away and is empty again; the next ones are expected to be about as many.
  std::shared_ptr<const T> Take() {
    if (buffer_.memory == nullptr) Grow(1);
    expected_ = size_ + size_ / 8;
    size_ = capacity_ = 0;
    const PooledBuffer taken = std::exchange(buffer_, {});
    return {taken.memory, reinterpret_cast<const T*>(taken.bytes.data())};
  }

 private:
  void Grow(std::size_t needed) {
    const std::size_t wanted = std::max({needed, 2 * capacity_, expected_});
    const std::size_t bytes = AlignUp(wanted * sizeof(T), kBufferAlignment);
    PooledBuffer larger = pool_ == nullptr ? AllocateBuffer(bytes) : pool_->Allocate(bytes);
    if (larger.memory == nullptr) throw std::bad_alloc();
    if (size_ != 0) std::memcpy(larger.bytes.data(), buffer_.bytes.data(), size_ * sizeof(T));
    buffer_ = std::move(larger);
    capacity_ = bytes / sizeof(T);
  }

  BufferPool* pool_ = nullptr;
  PooledBuffer buffer_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::size_t expected_ = 0;
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_EXAMPLE_VALUE_BUFFER_H_
