#ifndef TFOS_CONTROL_MESSAGES_STATUS_MESSAGES_H_
#define TFOS_CONTROL_MESSAGES_STATUS_MESSAGES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/progress/run_progress.h"

// The coordinator's answers over HTTP.
//
// Owner and lifetime: values. Threads: plain data. Units: as docs/formats/control-protocol.md says,
// where each field has its name of here.
namespace tfos::control {

struct ClusterStatus {
  std::string cluster_id;
  std::string name;  ///< Of the application, for people.
  std::vector<NodeInfo> nodes;
  /// By node id, written as text.
  std::map<std::string, Metrics> metrics;
  /// Likewise: what lost nodes had counted that others came in place of.
  std::map<std::string, Metrics> metrics_before;
  NodeRates rates;
  /// How far the training has come.
  RunProgress progress;
  std::string stopped_by;  ///< "alice@host-a", whose `tfos stop` has ended it. Else empty.
  std::optional<Failure> failure;
};

std::string SerializeStatus(const ClusterStatus& status);
std::string SerializeFailure(const Failure& failure);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_STATUS_MESSAGES_H_
