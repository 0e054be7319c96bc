#ifndef TFOS_TESTING_NO_MEMORY_H_
#define TFOS_TESTING_NO_MEMORY_H_

#include <cstddef>
#include <cstdlib>
#include <new>

// Takes the place of operator new in the test that includes this: include it in one file of a
// program only. Sanitizers have an operator new of their own. There this one is left out, and so
// are the tests that need it.

namespace tfos::testing {

/// Whether operator new refuses so many bytes. Null: it refuses none. Owner: the test, which sets
/// it back. Threads: each has its own.
inline thread_local bool (*refuses_memory)(std::size_t bytes) = nullptr;

/// For `refuses_memory`.
inline bool RefuseAll(std::size_t /*bytes*/) { return true; }

}  // namespace tfos::testing

#ifndef TFOS_SANITIZED
// Not inlined: GCC 12 would see free() of what another function has allocated.
[[gnu::noinline]] void* operator new(std::size_t size) {
  bool (*const refuses)(std::size_t) = tfos::testing::refuses_memory;
  void* const memory = refuses != nullptr && refuses(size) ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
#endif

#endif  // TFOS_TESTING_NO_MEMORY_H_
