#ifndef TFOS_BASE_PROCESS_PIDFD_H_
#define TFOS_BASE_PROCESS_PIDFD_H_

#include <sys/types.h>

#include "base/process/unique_fd.h"
#include "base/time/deadline.h"
#include "tfos/status.h"

namespace tfos {

/// A descriptor that stands for the process `pid` and polls readable once it has ended (a zombie
/// has ended too). It never comes to mean another process, as a bare pid does.
///
/// Errors: reconnect when there is no such process, unsupported before Linux 5.3. Close-on-exec.
Result<UniqueFd> OpenPidfd(pid_t pid);

/// Waits until the process behind `pidfd` has ended: true, or false when the deadline came first.
bool WaitForEnd(const UniqueFd& pidfd, Deadline deadline);

}  // namespace tfos

#endif  // TFOS_BASE_PROCESS_PIDFD_H_
