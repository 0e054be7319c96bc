#ifndef TFOS_BASE_PROCESS_PROCESS_STATE_H_
#define TFOS_BASE_PROCESS_PROCESS_STATE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tfos/status.h"

namespace tfos {

/// What the kernel says of a process: of its main thread, where threads may differ.
///
/// Owner and lifetime: a value. Threads: any.
struct ProcessState {
  /// As in proc(5): R runs or could, S sleeps, D waits in the kernel and can't be interrupted, T is
  /// stopped by a signal, t by a debugger, Z has ended.
  char state = '?';
  pid_t tracer = 0;           ///< A debugger that is attached; zero: none.
  bool dumping_core = false;  ///< It has crashed, and the kernel writes its memory to a file.
  std::string waits_in = {};  ///< The function of the kernel; empty where that is kept secret.
};

/// Reads it from /proc. Errors: reconnect when there is no such process.
Result<ProcessState> ReadProcessState(pid_t pid);

/// What the kernel says of a process or of a thread in a line, the one of /proc/PID/stat or of
/// /proc/PID/task/TID/stat. What the line lacks has the values of here.
///
/// Owner and lifetime: a value. Threads: any.
struct ProcessStat {
  std::string name;
  char state = '?';  ///< As that of ProcessState.
  pid_t parent = 0;
  unsigned flags = 0;          ///< PF_... of the kernel's include/linux/sched.h.
  double cpu_seconds = 0;      ///< Since it began, in programs and the kernel.
  std::int64_t rss_bytes = 0;  ///< Of memory that is resident now, shared memory included.
};

/// Reads the file `stat` in a process's folder of /proc, such as "/proc/42"; nullopt where there is
/// no such process.
std::optional<ProcessStat> ReadProcessStat(const std::string& folder);

/// The same from the one line of that file; nullopt where the line has no name.
std::optional<ProcessStat> ParseProcessStat(std::string_view line);

/// The text of a file of /proc; empty where it can't be read.
std::string ReadProcFile(const std::string& path);

/// Whether the process has ended, or its main thread is on the way out in the kernel. All threads
/// of a process that is killed are, before the first of its descriptors is closed; its pidfd tells
/// of the end later, when the last of them is gone.
bool IsEnding(pid_t pid);

/// The same as ReadProcessState, from the text of /proc/PID/status and /proc/PID/wchan.
ProcessState ParseProcessState(std::string_view status, std::string_view wchan);

/// Why a process in this state does nothing, for people: "it is frozen (...)".
std::string DescribeStandstill(const ProcessState& state);

}  // namespace tfos

#endif  // TFOS_BASE_PROCESS_PROCESS_STATE_H_
