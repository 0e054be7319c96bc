#include "control/coordinator/agent_table.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/format.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/shared_messages.h"

namespace tfos::control {

void AgentTable::Take(AgentConnection& connection, int node_id) {
  connection.MarkIdentified();
  node_of_[&connection] = node_id;
  connection_of_[node_id] = &connection;
}

void AgentTable::LetStandBy(AgentConnection& connection, int node_id, const std::string& reason) {
  connection.MarkIdentified();
  const auto for_node = [node_id](const auto& copy) { return copy.second == node_id; };
  if (std::ranges::count_if(standing_by_, for_node) >= kMostStandingBy) {
    const auto oldest = std::ranges::find_if(standing_by_, for_node);
    oldest->first->Abort();
    standing_by_.erase(oldest);
  }
  standing_by_.emplace_back(&connection, node_id);
  connection.Send({SerializeMessage(StandBy{reason})});
}

std::optional<int> AgentTable::Remove(AgentConnection& connection) {
  std::erase_if(standing_by_, [&](const auto& copy) { return copy.first == &connection; });
  const std::optional<int> node_id = NodeItSpeaksFor(connection);
  node_of_.erase(&connection);
  if (node_id.has_value()) connection_of_.erase(*node_id);
  return node_id;
}

bool AgentTable::StandsBy(AgentConnection& connection) const {
  return std::ranges::any_of(standing_by_,
                             [&](const auto& copy) { return copy.first == &connection; });
}

bool AgentTable::HasRegistered(AgentConnection& connection) const {
  return node_of_.contains(&connection);
}

std::optional<int> AgentTable::NodeItSpeaksFor(AgentConnection& connection) const {
  const auto known = node_of_.find(&connection);
  if (known == node_of_.end() || Find(known->second) != &connection) return std::nullopt;
  return known->second;
}

bool AgentTable::Send(int node_id, const AgentCommand& command) {
  AgentConnection* connection = Find(node_id);
  if (connection == nullptr) return false;
  std::visit(
      [&](const auto& message) {
        using Message = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<Message, StepTickets>) {
          connection->SendLatest(
              fmt::format("{} {} {}", Message::kType, message.queue, message.epoch),
              {SerializeMessage(message)});
        } else if constexpr (!std::is_same_v<Message, UnknownMessage>) {
          connection->Send({SerializeMessage(message)});
        }
      },
      command);
  return true;
}

void AgentTable::SendStart(int node_id, std::string own,
                           std::shared_ptr<const std::string> shared) {
  if (AgentConnection* connection = Find(node_id); connection != nullptr) {
    connection->Send({std::move(own), std::move(shared)});
  }
}

void AgentTable::Disconnect(int node_id) {
  if (AgentConnection* connection = Find(node_id); connection != nullptr) connection->Abort();
}

void AgentTable::Dismiss(const NodeInfo& node) {
  if (node.state != NodeState::kLost && node.state != NodeState::kFailed) return;
  for (const auto& [connection, node_id] : standing_by_) {
    if (node_id != node.node_id) continue;
    connection->Send({SerializeMessage(Refused{fmt::format(
        "the attempt that had started it is {}: {}", NodeStateName(node.state), node.detail)})});
    connection->CloseAfterSending();
  }
}

AgentConnection* AgentTable::Find(int node_id) const {
  const auto found = connection_of_.find(node_id);
  return found == connection_of_.end() ? nullptr : found->second;
}

}  // namespace tfos::control
