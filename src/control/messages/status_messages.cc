#include "control/messages/status_messages.h"

#include "control/messages/parts/metrics_json.h"
#include "control/messages/parts/node_info_json.h"
#include "control/messages/progress/run_progress_json.h"

namespace tfos::control {

template <typename F, DescribedAs<ClusterStatus> M>
void Describe(F& f, M& m) {
  f.Required("cluster_id", m.cluster_id);
  f.Optional("name", m.name);
  f.Required("nodes", m.nodes);
  f.Required("metrics", m.metrics);
  f.Optional("metrics_before", m.metrics_before);
  f.Optional("rates", m.rates);
  f.Optional("progress", m.progress);
  f.Optional("stopped_by", m.stopped_by);
  f.Optional("failure", m.failure);
}

std::string SerializeStatus(const ClusterStatus& status) {
  return WriteJsonLine(JsonValue<ClusterStatus>::Write(status));
}

std::string SerializeFailure(const Failure& failure) {
  return WriteJsonLine(JsonValue<Failure>::Write(failure));
}

}  // namespace tfos::control
