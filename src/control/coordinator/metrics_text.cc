#include "control/coordinator/metrics_text.h"

#include <array>
#include <cctype>
#include <iterator>
#include <set>

#include "base/format.h"
#include "control/messages/parts/metric_names.h"

namespace tfos::control {
namespace {

constexpr std::string_view kPrefix = "tfos_node_";

std::string FitName(std::string_view name) {
  std::string fit;
  for (const unsigned char c : name) fit += std::isalnum(c) != 0 ? static_cast<char>(c) : '_';
  return fit;
}

std::string LabelValue(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return escaped;
}

/// What Prometheus is told of a metric as a whole. `name`: as it stands behind the prefix.
std::string HeadLines(std::string_view name) {
  const KnownMetric* const known = FindKnownMetric(name);
  const bool counts = KindOfMetric(name) == MetricKind::kCounter;
  return (known == nullptr ? "" : fmt::format("# HELP {}{} {}\n", kPrefix, name, known->help)) +
         fmt::format("# TYPE {}{} {}\n", kPrefix, name, counts ? "counter" : "gauge");
}

/// Which node, and where.
std::string Labels(const NodeInfo& node) {
  return fmt::format("node=\"{}\",job=\"{}\",task=\"{}\",host=\"{}\"", node.node_id,
                     LabelValue(node.job_name), node.task_index, LabelValue(node.host));
}

/// One number of one node, as Prometheus writes it. Empty for a text, except for the words that
/// nodes send for numbers that JSON does not have.
std::string NumberText(const MetricValue& value) {
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  const std::string& text = std::get<std::string>(value);
  if (text == "nan") return "NaN";
  if (text == "inf") return "+Inf";
  return text == "-inf" ? "-Inf" : "";
}

}  // namespace

std::string MetricsText(const ClusterStatus& status) {
  std::array<int, kNodeStates> in_state{};
  // The format wants all samples of a metric together.
  std::map<std::string, std::string> samples;
  for (const NodeInfo& node : status.nodes) {
    ++in_state[static_cast<std::size_t>(node.state)];
    const auto metrics = status.metrics.find(std::to_string(node.node_id));
    if (metrics == status.metrics.end()) continue;
    const std::string labels = Labels(node);
    // Two names of the program may become one of Prometheus, which takes no sample twice: the first
    // in the order of the alphabet stands.
    std::set<std::string> written;
    for (const auto& [key, value] : metrics->second) {
      const std::string number = NumberText(value);
      if (number.empty()) continue;
      const std::string name = FitName(key);
      // Another number may not stand where people look for one of tfos.
      if (name != key && FindKnownMetric(name) != nullptr) continue;
      if (IsFinal(node.state) && KindOfMetric(name) == MetricKind::kGauge) continue;
      if (!written.insert(name).second) continue;
      fmt::format_to(std::back_inserter(samples[name]), "{}{}{{{}}} {}\n", kPrefix, name, labels,
                     number);
    }
  }
  std::string text =
      "# HELP tfos_nodes nodes of the cluster in each state\n"
      "# TYPE tfos_nodes gauge\n";
  for (std::size_t i = 0; i < kNodeStates; ++i) {
    fmt::format_to(std::back_inserter(text), "tfos_nodes{{state=\"{}\"}} {}\n",
                   NodeStateName(static_cast<NodeState>(i)), in_state[i]);
  }
  for (const auto& [name, lines] : samples) text += HeadLines(name) + lines;
  return text;
}

}  // namespace tfos::control
