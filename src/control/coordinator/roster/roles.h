#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_ROLES_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_ROLES_H_

#include <span>
#include <string>
#include <vector>

#include "control/messages/driver_messages.h"
#include "tfos/status.h"

namespace tfos::control {

/// What a node is in its cluster.
struct Role {
  std::string job_name;
  int task_index = 0;
  /// Whether it is a service to the others: never fed, and stopped once they are done.
  bool service = false;
};

/// The role of every node, by node id: ids run through `roles` in their order, and tasks of a job
/// are counted from 0. Bad input for no nodes, too many, or a job without a name.
Result<std::vector<Role>> AssignRoles(std::span<const RoleCount> roles,
                                      std::span<const std::string> service_jobs);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_ROLES_H_
