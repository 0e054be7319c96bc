#ifndef TFOS_CONTROL_COORDINATOR_CLUSTER_START_H_
#define TFOS_CONTROL_COORDINATOR_CLUSTER_START_H_

#include <string>
#include <vector>

#include "base/text/endpoint.h"
#include "control/coordinator/roster/roles.h"
#include "control/coordinator/roster/roster.h"
#include "control/messages/driver_messages.h"
#include "tfos/status.h"

namespace tfos::control {

/// The driver's first message. Bad input where it is none, or one that can't be followed.
Result<StartCluster> ParseStart(const std::string& line);

/// `endpoint`: where agents reach the coordinator.
RosterOptions RosterOptionsOf(const StartCluster& start, std::vector<Role> roles,
                              const Endpoint& endpoint);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_CLUSTER_START_H_
