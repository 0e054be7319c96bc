#include "base/memory/memory_of_host.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace tfos {

std::uint64_t MemoryOfHost() {
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    most = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
  }
  // In a container with a limit it holds a number, else `max`; elsewhere it does not exist.
  std::uint64_t limit = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit) most = std::min(most, limit);
  return most;
}

}  // namespace tfos
