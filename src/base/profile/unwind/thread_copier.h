#ifndef TFOS_BASE_PROFILE_UNWIND_THREAD_COPIER_H_
#define TFOS_BASE_PROFILE_UNWIND_THREAD_COPIER_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/profile/unwind/memory_map.h"
#include "base/profile/unwind/unwinder.h"
#include "base/time/deadline.h"
#include "tfos/status.h"

namespace tfos {

/// Stops one thread of another process after the other for a moment, and copies its registers and
/// its stack.
///
/// It stops them with ptrace(2), which writes nothing to the thread's memory. A signal's handler
/// would: some code, such as kernels of TensorFlow, keeps data where a handler's frame goes.
/// A thread that waits goes on waiting; a few system calls end with EINTR (epoll_wait, sigwaitinfo,
/// semop, sockets with a timeout: signal(7)). A process that is frozen by a signal stays so.
///
/// Owner and lifetime: borrows the map. However this process ends, the kernel lets the thread go.
/// Threads: one at a time; each copy is made on a thread of its own.
class ThreadCopier {
 public:
  /// For a thread to stop. It has gone on by itself once this has passed.
  static constexpr std::chrono::milliseconds kPatience{500};
  /// Of a stack, from its latest call on.
  static constexpr std::size_t kMostStackBytes = 256u << 10;

  struct Copied {
    std::optional<ThreadCopy> copy = {};
    bool ended = false;        ///< The thread has ended.
    std::string why_not = {};  ///< It can't be known; else empty.
    std::chrono::nanoseconds stood{0};
  };

  ThreadCopier(pid_t pid, std::span<const Mapping> sorted) : pid_(pid), mappings_(sorted) {}

  /// Errors: unsupported where the kernel lets this process trace no thread of that one.
  Result<Copied> Copy(pid_t thread, const Deadline& deadline) const;

 private:
  Result<Copied> CopyHere(pid_t thread, const Deadline& deadline) const;
  /// It has stopped.
  Copied TakeCopy(pid_t thread) const;

  const pid_t pid_;
  const std::span<const Mapping> mappings_;
};

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_UNWIND_THREAD_COPIER_H_
