#ifndef TFOS_CONTROL_AGENT_AGENT_H_
#define TFOS_CONTROL_AGENT_AGENT_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/process/unique_fd.h"
#include "control/host/gpus/gpu_lease.h"
#include "tfos/status.h"

namespace tfos::control {

struct AgentOptions {
  UniqueFd input = {};   ///< From the launch task: bootstrap, payload, lines.
  UniqueFd output = {};  ///< To the launch task.
  UniqueFd log = {};     ///< The executor's log, where the node's output goes. Shared with others.
  std::string host = {};
  /// Prints in which native calls the threads of a process are, whose number is added; empty:
  /// nothing does.
  std::vector<std::string> native_calls = {};
  /// The executor JVM above the launch task, or why there is none; used when the bootstrap says -1.
  Result<pid_t> executor_jvm = Status(ErrorKind::kBug, "nobody looked for the executor");
};

/// Supervises one node from the launch task's first word until nothing of the node is left.
/// Registers it with the coordinator, starts its process, relays what both say, and ends it when
/// anything dies that it must not outlive. docs/formats/control-protocol.md is its contract.
///
/// Threads: the calling one does everything, and the node dies with it. SIGPIPE must be ignored.
/// Errors: none are returned; failures go to the coordinator and the launch task.
/// Waiting costs nothing: between heartbeats the thread sleeps.
void RunAgent(AgentOptions options, GpuInventory& inventory);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_AGENT_H_
