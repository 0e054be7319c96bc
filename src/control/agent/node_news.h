#ifndef TFOS_CONTROL_AGENT_NODE_NEWS_H_
#define TFOS_CONTROL_AGENT_NODE_NEWS_H_

#include <optional>
#include <variant>

#include "control/messages/agent_messages.h"
#include "control/messages/leaving_nodes.h"

namespace tfos::control {

/// What the coordinator says that a node must hear also if it starts later: nodes that will be
/// lost, and the latest of its generation.
///
/// Owner and lifetime: of the agent; a value. Threads: one at a time. Errors: none.
class NodeNews {
 public:
  /// Keeps it if it is of that kind, and calls `send` with the message then. Whether it is.
  template <typename Send>
  bool Keep(const AgentCommand& command, const Send& send) {
    if (const auto* leaving = std::get_if<NodeLeaving>(&command)) {
      leaving_.Add(*leaving);
      send(*leaving);
    } else if (const auto* regroup = std::get_if<Regroup>(&command)) {
      send(*(regroup_ = *regroup));
    } else if (const auto* group = std::get_if<FormedGroup>(&command)) {
      send(*(group_ = *group));
    } else {
      return false;
    }
    return true;
  }

  /// Calls `send` with each, in the order in which they came.
  template <typename Send>
  void TellAll(const Send& send) const {
    for (const auto& [node_id, reason] : leaving_.reasons()) {
      send(NodeLeaving{.node_id = node_id, .reason = reason});
    }
    const bool newer = regroup_ && group_ && regroup_->generation > group_->generation;
    if (regroup_ && !newer) send(*regroup_);
    if (group_) send(*group_);
    if (newer) send(*regroup_);
  }

 private:
  LeavingNodes leaving_;
  std::optional<Regroup> regroup_;
  std::optional<FormedGroup> group_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_NODE_NEWS_H_
