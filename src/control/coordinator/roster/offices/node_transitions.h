#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_NODE_TRANSITIONS_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_NODE_TRANSITIONS_H_

#include "control/messages/parts/node_info.h"

namespace tfos::control {

/// Whether a node's state may go from `from` to `to`.
bool MayBecome(NodeState from, NodeState to);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_NODE_TRANSITIONS_H_
