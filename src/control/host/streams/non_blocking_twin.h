#ifndef TFOS_CONTROL_HOST_STREAMS_NON_BLOCKING_TWIN_H_
#define TFOS_CONTROL_HOST_STREAMS_NON_BLOCKING_TWIN_H_

#include "base/process/unique_fd.h"
#include "tfos/status.h"

namespace tfos::control {

/// A descriptor for writing to what `fd` writes to without ever blocking, and without making `fd`'s
/// other users non-blocking: for a pipe or terminal an open file of its own.
/// Threads: any. Errors: those of the system.
Result<UniqueFd> OpenNonBlockingTwin(int fd);

/// Puts such a twin in the place of this process's standard error. Log lines that nobody reads, as
/// in a pager or after Ctrl-S, are lost then and hold up nothing.
/// Threads: before there are others. Errors: those of the system; then it is as it was.
Status StopWaitingForReadersOfStandardError();

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_STREAMS_NON_BLOCKING_TWIN_H_
