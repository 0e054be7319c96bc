#ifndef TFOS_TESTING_SCARCE_SHARED_MEMORY_H_
#define TFOS_TESTING_SCARCE_SHARED_MEMORY_H_

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <limits>

// For a test alone, in one source: its executable's own fallocate, which finds no memory beyond a
// limit, as on a host that does not overcommit it (vm.overcommit_memory=2).
namespace tfos {

inline std::atomic<std::int64_t> shared_memory_left = std::numeric_limits<std::int64_t>::max();

/// Sets that limit for a scope, from here on.
///
/// Owner and lifetime: a local, one at a time. Threads: the limit is for all.
class ScarceSharedMemory {
 public:
  explicit ScarceSharedMemory(std::int64_t bytes) { shared_memory_left = bytes; }
  ~ScarceSharedMemory() { shared_memory_left = std::numeric_limits<std::int64_t>::max(); }
  ScarceSharedMemory(const ScarceSharedMemory&) = delete;
  ScarceSharedMemory& operator=(const ScarceSharedMemory&) = delete;
};

}  // namespace tfos

extern "C" int fallocate(int fd, int mode, off_t offset, off_t length) {
  if (mode == 0 && (tfos::shared_memory_left -= length) < 0) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, length));
}

#endif  // TFOS_TESTING_SCARCE_SHARED_MEMORY_H_
