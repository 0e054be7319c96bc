#include <algorithm>
#include <utility>

#include "base/format.h"
#include "control/coordinator/roster/node_words.h"
#include "control/coordinator/roster/roster.h"

// Nodes that serve others, are lost, and come again: docs/parameter-servers.md, "Failures".

namespace tfos::control {

bool Roster::TrainingHasEnded() const {
  return std::ranges::all_of(
      nodes_, [](const Node& node) { return node.service || IsFinal(node.info.state); });
}

Status Roster::CheckReturning(const Node& node) const {
  if (!formed_at_.has_value() || !TrainingHasEnded()) return {};
  return {ErrorKind::kBadInput,
          fmt::format("{} comes too late: the programs of the nodes that train have ended",
                      NodeName(node.info))};
}

void Roster::TellMoved(const Node& node, Effects& effects) const {
  const NodeInfo& info = node.info;
  const NodeMoved moved{
      .node_id = info.node_id,
      .name = fmt::format("{}:{} on host {}", info.job_name, info.task_index, info.host),
      .address = info.address,
      .tensor_port = info.tensor_port};
  for (const Node& other : nodes_) {
    if (!other.service && other.connected) {
      effects.push_back(TellAgent{other.info.node_id, moved});
    }
  }
}

void Roster::LookAtReturning(TimePoint now, Effects& effects) {
  if (!formed_at_.has_value() || !stop_reason_.empty() || TrainingHasEnded()) return;
  for (const Node& node : nodes_) {
    if (!node.loss.has_value() || now - node.since < options_.min_nodes_timeout) continue;
    Failure failure = *node.loss;
    failure.report.message +=
        fmt::format(". It did not come again within {} (spark.tfos.minNodes.timeout)",
                    SecondsForPeople(options_.min_nodes_timeout));
    const std::string reason = failure.report.message;
    Spread(std::move(failure), reason, now, effects);
    return;
  }
}

}  // namespace tfos::control
