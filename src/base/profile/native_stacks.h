#ifndef TFOS_BASE_PROFILE_NATIVE_STACKS_H_
#define TFOS_BASE_PROFILE_NATIVE_STACKS_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/profile/unwind/memory_map.h"
#include "base/time/deadline.h"
#include "tfos/status.h"

namespace tfos {

/// The native calls that a thread is in.
///
/// Owner and lifetime: a value. Threads: plain data.
struct NativeStack {
  pid_t thread = 0;
  std::string name;
  std::vector<std::uintptr_t> calls = {};  ///< Addresses in the code, the latest call first.
  bool goes_on = false;                    ///< There are more calls than that.
  bool is_lost = false;                    ///< There are, but they are not known.
  std::string why_not = {};                ///< Without calls: why they are not known.
  std::chrono::nanoseconds stood{0};       ///< How long the thread was stopped.
};

/// What a process's threads are in, and where its code is.
///
/// Owner and lifetime: a value. Threads: plain data.
struct NativeStacks {
  std::vector<NativeStack> threads;
  std::vector<Mapping> map;
};

/// The stacks of all threads of another process, one after the other. Each is stopped for a moment,
/// some 100 us, while it is copied (unwind/thread_copier.h). Threads that end meanwhile are left
/// out. It waits for 0.5 s for each thread, and says so of those that are left at the deadline.
///
/// Call it in a process that is made for it: what happens to it then harms nobody.
/// Threads: any. Errors: unsupported when the kernel does not let this process trace that one,
/// reconnect when there is none.
Result<NativeStacks> TakeNativeStacks(pid_t pid, const Deadline& deadline);

/// For people, with the latest call last. Threads with the same calls are one. Calls that Python's
/// interpreter makes, and those around it, are left out. At most `most_bytes`.
std::string DescribeNativeStacks(const NativeStacks& stacks, const Deadline& deadline,
                                 std::size_t most_bytes);

/// Both, within 4 s; of a failure, what it is and what helps.
std::string NativeStacksText(pid_t pid, std::size_t most_bytes);

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_NATIVE_STACKS_H_
