#ifndef TFOS_CONTROL_AGENT_NODE_NEWS_H_
#define TFOS_CONTROL_AGENT_NODE_NEWS_H_

#include <type_traits>
#include <variant>
#include <vector>

#include "control/messages/agent_messages.h"
#include "control/messages/node_notices.h"

namespace tfos::control {

/// What the coordinator says that a node must hear also if it starts later: nodes that will be
/// lost, where nodes are that were, and the latest of its generation.
///
/// Owner and lifetime: of the agent; a value. Threads: one at a time. Errors: none.
class NodeNews {
 public:
  /// Keeps it if it is of that kind, and calls `send` with the message then. Whether it is.
  template <typename Send>
  bool Keep(const AgentCommand& command, const Send& send) {
    if (const auto* leaving = std::get_if<NodeLeaving>(&command)) {
      notices_.Add(*leaving);
      send(*leaving);
      return true;
    }
    if (const auto* moved = std::get_if<NodeMoved>(&command)) {
      notices_.Add(*moved);
      send(*moved);
      return true;
    }
    return std::visit(
        [&](const auto& message) {
          using Message = std::decay_t<decltype(message)>;
          if constexpr (!kOfGenerations<Message>) {
            return false;
          } else {
            std::erase_if(of_generations_, [](const AgentCommand& earlier) {
              return std::holds_alternative<Message>(earlier);
            });
            of_generations_.emplace_back(message);
            send(message);
            return true;
          }
        },
        command);
  }

  /// Calls `send` with each, in the order in which they came.
  template <typename Send>
  void TellAll(const Send& send) const {
    for (const auto& [node_id, reason] : notices_.reasons()) {
      send(NodeLeaving{.node_id = node_id, .reason = reason});
    }
    for (const auto& [node_id, moved] : notices_.moved()) send(moved);
    for (const AgentCommand& command : of_generations_) {
      std::visit(
          [&](const auto& message) {
            if constexpr (kOfGenerations<std::decay_t<decltype(message)>>) send(message);
          },
          command);
    }
  }

 private:
  template <typename Message>
  static constexpr bool kOfGenerations =
      std::is_same_v<Message, Regroup> || std::is_same_v<Message, FormedGroup> ||
      std::is_same_v<Message, Meet> || std::is_same_v<Message, NoGroup>;

  NodeNotices notices_;
  std::vector<AgentCommand> of_generations_;  ///< The latest of each kind.
};

/// Calls `send` with the message if it concerns only a node that runs. Whether it does.
template <typename Send>
bool PassOn(const AgentCommand& command, const Send& send) {
  return std::visit(
      [&](const auto& message) {
        using Message = std::decay_t<decltype(message)>;
        constexpr bool passes =
            std::is_same_v<Message, EndEpoch> || std::is_same_v<Message, AbandonEpoch> ||
            std::is_same_v<Message, EndJob> || std::is_same_v<Message, StepTickets>;
        if constexpr (passes) send(message);
        return passes;
      },
      command);
}

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_NODE_NEWS_H_
