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
  /// What the nodes had counted in whose place it came; nullptr: nothing.
  const Metrics* before = nullptr;
  /// The cluster had formed before: the others may be ahead of it.
  bool came_late = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PROGRESS_NODE_VIEW_H_
