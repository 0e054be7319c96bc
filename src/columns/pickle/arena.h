#ifndef TFOS_COLUMNS_PICKLE_ARENA_H_
#define TFOS_COLUMNS_PICKLE_ARENA_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace tfos::columns {

/// Memory for many small things that all die together: an allocation is an addition.
///
/// Owner and lifetime: owns its blocks; what it handed out lives until Reset. Threads: one at a
/// time. Errors: throws std::bad_alloc. Units: bytes.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Room for `count` objects, whose content is not initialised.
  template <typename T>
  T* Allocate(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlignment);
    return reinterpret_cast<T*>(AllocateBytes(count * sizeof(T)));
  }

  template <typename T>
  T* New(const T& value) {
    return new (Allocate<T>(1)) T(value);
  }

  template <typename T>
  T* Copy(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    T* const copy = Allocate<T>(values.size());
    if (!values.empty()) std::memcpy(copy, values.data(), values.size_bytes());
    return copy;
  }

  /// Forgets everything handed out. Keeps up to kKeptBytes for what comes next.
  void Reset() {
    std::size_t kept = 0;
    std::erase_if(blocks_, [&](const Block& block) {
      kept += block.bytes;
      return kept > kKeptBytes;
    });
    next_block_ = 0;
    next_ = end_ = nullptr;
  }

 private:
  static constexpr std::size_t kAlignment = 16;
  static constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
  static constexpr std::size_t kKeptBytes = std::size_t{16} << 20;

  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };

  std::byte* AllocateBytes(std::size_t bytes) {
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (static_cast<std::size_t>(end_ - next_) < bytes) NextBlock(bytes);
    std::byte* const allocated = next_;
    next_ += bytes;
    return allocated;
  }

  void NextBlock(std::size_t bytes) {
    while (next_block_ < blocks_.size() && blocks_[next_block_].bytes < bytes) ++next_block_;
    if (next_block_ == blocks_.size()) {
      const std::size_t size = std::max(bytes, kBlockBytes);
      blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
    }
    next_ = blocks_[next_block_].memory.get();
    end_ = next_ + blocks_[next_block_].bytes;
    ++next_block_;
  }

  std::vector<Block> blocks_;
  std::size_t next_block_ = 0;  ///< The first that nothing was taken of yet.
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
};

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_PICKLE_ARENA_H_
