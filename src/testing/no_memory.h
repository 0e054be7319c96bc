#ifndef TFOS_TESTING_NO_MEMORY_H_
#define TFOS_TESTING_NO_MEMORY_H_

#include <cstddef>
#include <cstdlib>
#include <new>

// Takes the place of operator new in the test that includes this: include it in one file of a
// program only. Sanitizers have an operator new of their own. There this one is left out, and so
// are the tests that need it.

namespace tfos::testing {

/// Whether this thread gets no memory from operator new. Owner: the test. Threads: each has its
/// own.
inline thread_local bool memory_is_scarce = false;

}  // namespace tfos::testing

#ifndef TFOS_SANITIZED
// Not inlined: GCC 12 would see free() of what another function has allocated.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = tfos::testing::memory_is_scarce ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
#endif

#endif  // TFOS_TESTING_NO_MEMORY_H_
