#ifndef TFOS_CONTROL_HOST_PROCESS_USAGE_H_
#define TFOS_CONTROL_HOST_PROCESS_USAGE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tfos::control {

/// What a process uses of its host.
struct ProcessUsage {
  double cpu_seconds = 0;      ///< Of all its threads since it began, in programs and the kernel.
  std::int64_t rss_bytes = 0;  ///< Of memory that is resident now, shared memory included.
};

/// nullopt where the process has ended. Threads: any. Errors: none.
std::optional<ProcessUsage> ReadProcessUsage(pid_t pid, const std::string& proc_root = "/proc");

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_PROCESS_USAGE_H_
