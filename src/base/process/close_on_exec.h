#ifndef TFOS_BASE_PROCESS_CLOSE_ON_EXEC_H_
#define TFOS_BASE_PROCESS_CLOSE_ON_EXEC_H_

namespace tfos {

/// Marks every open file descriptor from `first` on as close-on-exec, whoever opened it. One system
/// call since Linux 5.11; before that one for each open descriptor, however high the limit is.
///
/// Threads, signals: async-signal-safe, so a child may call it between fork and exec.
/// Errors: false, and errno says why.
bool MarkCloseOnExec(int first);

/// What MarkCloseOnExec does on kernels without CLOSE_RANGE_CLOEXEC: reads /proc/self/fd.
bool MarkListedCloseOnExec(int first);

}  // namespace tfos

#endif  // TFOS_BASE_PROCESS_CLOSE_ON_EXEC_H_
