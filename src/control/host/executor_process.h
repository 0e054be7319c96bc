#ifndef TFOS_CONTROL_HOST_EXECUTOR_PROCESS_H_
#define TFOS_CONTROL_HOST_EXECUTOR_PROCESS_H_

#include <sys/types.h>

#include <string>

#include "tfos/status.h"

namespace tfos::control {

/// The Spark executor's JVM that `pid` descends from (or is), found by walking up its parents: a
/// Python worker's parent is pyspark.daemon, or the JVM itself.
///
/// A JVM is a process whose executable or command name is `java`. The nearest one counts.
/// `proc_root` is where procfs is mounted. Errors: reconnect when no ancestor is one, with the
/// names of those that were looked at.
Result<pid_t> FindExecutorJvm(pid_t pid, const std::string& proc_root = "/proc");

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_EXECUTOR_PROCESS_H_
