#ifndef TFOS_BASE_MEMORY_BUFFER_POOL_H_
#define TFOS_BASE_MEMORY_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tfos {

/// Memory, mostly of a BufferPool, that starts at a multiple of 64 bytes; its content is not
/// initialised.
struct PooledBuffer {
  std::span<std::byte> bytes = {};
  std::shared_ptr<const void> memory = {};  ///< The bytes stay as long as a copy of this does.
};

/// Such memory that goes back to the heap. Empty if the allocation failed.
PooledBuffer AllocateBuffer(std::size_t bytes);

/// Heap memory that is used again. Large blocks from the heap are fresh pages from the kernel each
/// time, and getting those costs more than filling them.
///
/// Owner and lifetime: buffers may outlive the pool. Threads: any.
/// Errors: an allocation that fails gives an empty buffer. Units: bytes. Cost: it keeps up to
/// kMostKeptBytes that nobody uses.
class BufferPool {
 public:
  static constexpr std::size_t kMostKeptBytes = std::size_t{64} << 20;

  BufferPool();
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  PooledBuffer Allocate(std::size_t bytes);

  /// Bytes that are kept and not used.
  std::size_t kept_bytes() const;

 private:
  class Kept;
  const std::shared_ptr<Kept> kept_;
};

}  // namespace tfos

#endif  // TFOS_BASE_MEMORY_BUFFER_POOL_H_
