#ifndef TFOS_CONTROL_COORDINATOR_METRICS_TEXT_H_
#define TFOS_CONTROL_COORDINATOR_METRICS_TEXT_H_

#include <string>

#include "control/messages/status_messages.h"

namespace tfos::control {

/// The cluster in Prometheus' text format 0.0.4: `tfos_nodes{state}`, and each metric that is a
/// number as `tfos_node_<name>{node,job}`. Characters that a metric's name can't have become
/// `_`; of names that become the same the first stands. Kinds are those of metric_names.h. Of nodes
/// that have ended only the counters are there: a sum over nodes then never falls.
std::string MetricsText(const ClusterStatus& status);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_METRICS_TEXT_H_
