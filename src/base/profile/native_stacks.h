#ifndef TFOS_BASE_PROFILE_NATIVE_STACKS_H_
#define TFOS_BASE_PROFILE_NATIVE_STACKS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/time/deadline.h"
#include "tfos/status.h"

namespace tfos {

/// The native calls that a thread of this process is in.
///
/// Owner and lifetime: a value. Threads: plain data.
struct NativeStack {
  pid_t thread = 0;
  std::string name;
  std::vector<std::uintptr_t> calls = {};  ///< Addresses in the code, the latest call first.
  bool goes_on = false;                    ///< There are more calls than that.
  std::string why_not = {};                ///< Without calls: "it blocks all signals".
};

/// Which signal makes a thread tell its calls. Programs may take it: then there are no stacks.
int SignalOfNativeStacks();

/// Loads what the signal's handler needs, as a thread that hangs may hold the loader's lock later.
void PrepareNativeStacks();

/// The stacks of all other threads of this process, one after the other. Each is interrupted by a
/// signal, in whose handler it walks its own stack. Its system call is restarted (SA_RESTART), but
/// some kinds return EINTR: signal(7). So ask only for those who may disturb the process.
///
/// It waits for 100 ms for each thread, and leaves out what is left at the deadline.
/// Threads: any; one at a time, others wait. Errors: unsupported when the program has taken the
/// signal, retry-later while a thread of an earlier call still walks.
Result<std::vector<NativeStack>> TakeNativeStacks(const Deadline& deadline);

/// For people, with the latest call last. Threads with the same calls are one. Calls that Python's
/// interpreter makes, and those around it, are left out. At most `most_bytes`.
std::string DescribeNativeStacks(const std::vector<NativeStack>& stacks, const Deadline& deadline,
                                 std::size_t most_bytes);

/// Both; of a failure, what it is.
std::string NativeStacksText(std::size_t most_bytes);

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_NATIVE_STACKS_H_
