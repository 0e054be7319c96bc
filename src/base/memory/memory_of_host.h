#ifndef TFOS_BASE_MEMORY_MEMORY_OF_HOST_H_
#define TFOS_BASE_MEMORY_MEMORY_OF_HOST_H_

#include <cstdint>

namespace tfos {

/// What all processes of this host can have together: its memory, or what its container may use
/// (cgroup v2, as the container sees it) if that is less. Bytes. Threads: any.
std::uint64_t MemoryOfHost();

}  // namespace tfos

#endif  // TFOS_BASE_MEMORY_MEMORY_OF_HOST_H_
