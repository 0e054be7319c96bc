#ifndef TFOS_CONTROL_MESSAGES_PARTS_METRICS_H_
#define TFOS_CONTROL_MESSAGES_PARTS_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "control/messages/parts/metric_names.h"

// What a program says about its training.
//
// Owner and lifetime: values. Threads: plain data. Units: as docs/formats/control-protocol.md says,
// where each field has its name of here.
namespace tfos::control {

using MetricValue = std::variant<std::int64_t, double, std::string>;
/// In one message.
inline constexpr std::size_t kMostMetrics = 256;

using Metrics = std::map<std::string, MetricValue>;

/// Metrics as a program said them: those that can't be carried are dropped and named in words,
/// since a number that nobody can read must not end a node.
struct ReportedMetrics {
  Metrics kept;
  std::vector<std::string> dropped = {};
};

/// Whether a heartbeat with these metrics says that `metric` is not known any more.
bool IsForgottenBy(const Metrics& heartbeat, const KnownMetric& metric);

/// The finite number of this name; nothing where there is none.
std::optional<double> NumberOf(const Metrics& metrics, const char* name);

/// What counters have grown by in a second lately: by node id, as text, and by name.
using NodeRates = std::map<std::string, std::map<std::string, double>>;

struct NodeMetrics {
  int node_id = 0;
  Metrics metrics;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_METRICS_H_
