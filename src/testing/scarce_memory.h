#ifndef TFOS_TESTING_SCARCE_MEMORY_H_
#define TFOS_TESTING_SCARCE_MEMORY_H_

#include <cstddef>
#include <cstdlib>
#include <limits>

// Takes the place of the C library's aligned_alloc in the test that includes this: include it in
// one file only.

namespace tfos {

/// The most bytes that this thread gets at once as an AlignedBuffer.
inline thread_local std::size_t largest_buffer = std::numeric_limits<std::size_t>::max();

/// Sets that limit for a scope.
///
/// Owner and lifetime: a local. Threads: the limit is for the one that made it.
class ScarceMemory {
 public:
  explicit ScarceMemory(std::size_t largest) { largest_buffer = largest; }
  ~ScarceMemory() { largest_buffer = std::numeric_limits<std::size_t>::max(); }
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;
};

}  // namespace tfos

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  void* memory = nullptr;
  if (size > tfos::largest_buffer) return nullptr;
  return ::posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}

#endif  // TFOS_TESTING_SCARCE_MEMORY_H_
