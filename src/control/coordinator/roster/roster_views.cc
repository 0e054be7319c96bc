#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "control/coordinator/roster/node_words.h"
#include "control/coordinator/roster/roster.h"
#include "control/messages/progress/silence.h"

// The nodes as others see them: people, the driver, and each node at its start.

namespace tfos::control {

std::vector<NodeInfo> Roster::Nodes(TimePoint now) const {
  std::vector<NodeInfo> infos;
  infos.reserve(nodes_.size());
  for (const Node& node : nodes_) infos.push_back(Info(node, now));
  return infos;
}

ClusterStatus Roster::Snapshot(TimePoint now) const {
  ClusterStatus status;
  status.cluster_id = options_.cluster_id;
  status.name = options_.name;
  status.nodes = Nodes(now);
  for (NodeInfo& info : status.nodes) {
    const LatestMetrics& metrics = nodes_[static_cast<std::size_t>(info.node_id)].metrics;
    info.detail = DoingWithSilence(info, metrics.values());
    const std::string id = std::to_string(info.node_id);
    status.metrics[id] = metrics.values();
    if (!metrics.before().empty()) status.metrics_before[id] = metrics.before();
  }
  status.failure = failure_;
  return status;
}

std::vector<NodeView> Roster::Views() const {
  std::vector<NodeView> views;
  views.reserve(nodes_.size());
  for (const Node& node : nodes_) {
    views.push_back({.info = &node.info,
                     .metrics = &node.metrics.values(),
                     .before = &node.metrics.before(),
                     .came_late = node.came_late});
  }
  return views;
}

StartNode Roster::Start(int node_id) const {
  const Node& node = nodes_[static_cast<std::size_t>(node_id)];
  const NodeInfo& info = node.info;
  return {.job_name = info.job_name,
          .task_index = info.task_index,
          .cluster_spec = {},
          .nodes = {},
          .tensorboard = node_id == options_.tensorboard_node,
          .joins = IsNewcomer(node) || (node.service && node.came_late)};
}

StartNode Roster::SharedStart(TimePoint now) const {
  StartNode start;
  start.nodes = Nodes(now);
  for (const Node& node : nodes_) {
    start.cluster_spec[node.info.job_name].push_back(
        Endpoint{node.info.address, node.info.port}.ToString());
    if (!node.service) ++start.num_workers;
  }
  return start;
}

std::vector<NodeMetrics> Roster::TakeChangedMetrics() {
  std::vector<NodeMetrics> changed;
  for (Node& node : nodes_) {
    if (node.metrics.TakeChanged()) {
      changed.push_back({.node_id = node.info.node_id, .metrics = node.metrics.values()});
    }
  }
  return changed;
}

NodeInfo Roster::Info(const Node& node, TimePoint now) const {
  NodeInfo info = node.info;
  info.since_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - node.since);
  info.joins = IsNewcomer(node);
  return info;
}

}  // namespace tfos::control
