#include "control/messages/parts/metrics_json.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/format.h"

namespace tfos {
namespace {

constexpr std::size_t kMaxMetricBytes = 256;  // of a name or a string value
constexpr std::size_t kShownNameBytes = 40;   // of a metric's name that is wrong
constexpr auto kMostInt64 = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

}  // namespace

std::string JsonValue<control::MetricValue>::Read(const Json& json, control::MetricValue& value,
                                                  JsonRange range) {
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > kMostInt64) {
    value = static_cast<double>(json.get<std::uint64_t>());
    return {};
  }
  if (json.is_number_float()) {
    return JsonValue<double>::Read(json, value.emplace<double>(), range);
  }
  if (json.is_number()) {
    return JsonValue<std::int64_t>::Read(json, value.emplace<std::int64_t>(), kAnyInteger);
  }
  if (json.is_string() && json.get_ref<const std::string&>().size() <= kMaxMetricBytes) {
    return JsonValue<std::string>::Read(json, value.emplace<std::string>(), range);
  }
  return fmt::format("must be a number or a string of at most {} bytes", kMaxMetricBytes);
}

Json JsonValue<control::MetricValue>::Write(const control::MetricValue& metric) {
  return std::visit([](const auto& value) { return Json(value); }, metric);
}

std::string JsonValue<control::ReportedMetrics>::Read(const Json& json,
                                                      control::ReportedMetrics& value,
                                                      JsonRange range) {
  if (!json.is_object()) return "must be an object";
  for (const auto& [name, metric] : json.items()) {
    if (metric.is_null()) continue;  // how a number that is not finite is written
    control::MetricValue taken;
    std::string problem;
    if (name.empty() || name.size() > kMaxMetricBytes) {
      problem = fmt::format("must have a name of 1 to {} bytes", kMaxMetricBytes);
    } else if (value.kept.size() == control::kMostMetrics) {
      problem =
          fmt::format("comes after {} others, the most that a node reports", control::kMostMetrics);
    } else {
      problem = JsonValue<control::MetricValue>::Read(metric, taken, range);
    }
    if (problem.empty()) {
      value.kept.emplace(name, std::move(taken));
    } else {
      value.dropped.push_back(
          fmt::format("metric '{}' {}", name.substr(0, kShownNameBytes), problem));
    }
  }
  return {};
}

Json JsonValue<control::ReportedMetrics>::Write(const control::ReportedMetrics& metrics) {
  return JsonValue<control::Metrics>::Write(metrics.kept);
}

std::string JsonValue<control::Metrics>::Read(const Json& json, control::Metrics& value,
                                              JsonRange range) {
  control::ReportedMetrics reported;
  std::string problem = JsonValue<control::ReportedMetrics>::Read(json, reported, range);
  if (!problem.empty()) return problem;
  if (!reported.dropped.empty()) return "is wrong: " + reported.dropped.front();
  value = std::move(reported.kept);
  return {};
}

Json JsonValue<control::Metrics>::Write(const control::Metrics& metrics) {
  Json object = Json::object();
  for (const auto& [name, value] : metrics) {
    object[name] = JsonValue<control::MetricValue>::Write(value);
  }
  return object;
}

}  // namespace tfos
