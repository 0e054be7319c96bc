#ifndef TFOS_BASE_MEMORY_ALIGNED_BUFFER_H_
#define TFOS_BASE_MEMORY_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

namespace tfos {

/// TensorFlow wraps memory that starts at a multiple of this; it copies other memory.
inline constexpr std::size_t kBufferAlignment = 64;

constexpr std::size_t AlignUp(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Heap memory that starts at a multiple of `kBufferAlignment`; its content is not initialised.
///
/// Owner and lifetime: move-only, frees its memory. Threads: one owner at a time.
/// Errors: an allocation that fails leaves it empty.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes)
      : data_(static_cast<std::byte*>(
            bytes == 0 ? nullptr
                       : std::aligned_alloc(kBufferAlignment, AlignUp(bytes, kBufferAlignment)))),
        size_(data_ == nullptr ? 0 : bytes) {}

  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  std::span<std::byte> bytes() { return {data_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace tfos

#endif  // TFOS_BASE_MEMORY_ALIGNED_BUFFER_H_
