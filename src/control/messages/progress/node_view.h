#ifndef TFOS_CONTROL_MESSAGES_PROGRESS_NODE_VIEW_H_
#define TFOS_CONTROL_MESSAGES_PROGRESS_NODE_VIEW_H_

#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info.h"

namespace tfos::control {

/// A node with its latest metrics, as both are now.
///
/// Owner and lifetime: borrowed of the roster, until something of it changes. Threads: plain data.
struct NodeView {
  const NodeInfo* info;
  const Metrics* metrics;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PROGRESS_NODE_VIEW_H_
