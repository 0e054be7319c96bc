#ifndef TFOS_CONTROL_MESSAGES_PARTS_METRICS_JSON_H_
#define TFOS_CONTROL_MESSAGES_PARTS_METRICS_JSON_H_

#include <string>

#include "base/text/json_fields.h"
#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info_json.h"

// Metrics as JSON. Only for the sources of messages.

namespace tfos {

template <>
struct JsonValue<control::MetricValue> {
  static std::string Read(const Json& json, control::MetricValue& value, JsonRange range);
  static Json Write(const control::MetricValue& metric);
};

template <>
struct JsonValue<control::ReportedMetrics> {
  static std::string Read(const Json& json, control::ReportedMetrics& value, JsonRange range);
  static Json Write(const control::ReportedMetrics& metrics);
};

/// From an agent of ours, which has dropped what a program got wrong.
template <>
struct JsonValue<control::Metrics> {
  static std::string Read(const Json& json, control::Metrics& value, JsonRange range);
  static Json Write(const control::Metrics& metrics);
};

}  // namespace tfos

namespace tfos::control {

template <typename F, DescribedAs<NodeMetrics> M>
void Describe(F& f, M& m) {
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("metrics", m.metrics);
}

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_METRICS_JSON_H_
