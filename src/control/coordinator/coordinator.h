#ifndef TFOS_CONTROL_COORDINATOR_COORDINATOR_H_
#define TFOS_CONTROL_COORDINATOR_COORDINATOR_H_

#include <functional>
#include <string>
#include <vector>

#include "base/process/unique_fd.h"
#include "base/time/deadline.h"

namespace tfos::control {

struct CoordinatorOptions {
  UniqueFd input;   ///< Lines from the driver.
  UniqueFd output;  ///< Lines to the driver.
  /// The driver, for OpenPidfd: its end is the end of `input`, also where children that it had
  /// forked hold the other end. Without one, `input` alone tells.
  UniqueFd driver = {};
  /// Called once the driver has said whose lines the log is to hold and from which level on. The
  /// log belongs to the process, so that a caller with other threads may not want it changed.
  std::function<void(const std::string& cluster_id, const std::string& level)> set_up_logging = {};
  /// Where to leave a file by which the cluster's user finds it (RuntimeFolders). Empty: nowhere.
  std::vector<std::string> runtime_folders = {};
  /// What the nodes' deadlines are measured with. It is asked once a heartbeat interval.
  const Clock* clock = &Clock::Steady();
};

/// Forms one cluster, watches it and ends it, as the driver says on `input`:
/// docs/formats/control-protocol.md is its contract. Returns when the driver says `exit`, or, at
/// the end of `input`, once all agents have stopped their nodes, within their grace and 5 seconds.
///
/// Threads: the calling one does everything. SIGPIPE must be ignored.
/// Errors: told to the driver as `fatal` or `failed`. The result is the process's exit code: 0
/// after `exit`, 1 when it could not start or the driver died. Waiting costs nothing: it wakes once
/// a heartbeat interval, and for messages.
int RunCoordinator(CoordinatorOptions options);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_COORDINATOR_H_
