#ifndef TFOS_CONTROL_COORDINATOR_AGENT_TABLE_H_
#define TFOS_CONTROL_COORDINATOR_AGENT_TABLE_H_

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/link/server/control_service.h"
#include "control/messages/agent_messages.h"
#include "control/messages/parts/node_info.h"

namespace tfos::control {

/// The connections of a cluster's agents: of which node each is, which of them speaks for its node,
/// and which stand by.
///
/// Owner and lifetime: the coordinator's. Borrows the connections, each until `Remove`. Threads:
/// one at a time. Errors: none; a message to an agent that isn't there is dropped.
class AgentTable {
 public:
  /// For one node. Spark has one copy of a task at a time, but the end of one whose host is gone
  /// may never be heard of.
  static constexpr int kMostStandingBy = 4;

  /// It has registered, and speaks for the node from now on. One that did so before has no more to
  /// say.
  void Take(AgentConnection& connection, int node_id);
  /// It is a copy's, of the launch task of a node that has an agent. Tells it to wait for Spark to
  /// end it. Refused, the copy would fail, and Spark would count that and start the next one. Of
  /// kMostStandingBy others of the node, the oldest loses its connection.
  void LetStandBy(AgentConnection& connection, int node_id, const std::string& reason);
  /// Its connection is gone. The node that it spoke for; nullopt if it spoke for none.
  std::optional<int> Remove(AgentConnection& connection);

  bool StandsBy(AgentConnection& connection) const;
  bool HasRegistered(AgentConnection& connection) const;
  /// nullopt: it has not registered, or another one has come in its place.
  std::optional<int> NodeItSpeaksFor(AgentConnection& connection) const;

  /// Sends a command to a node's agent. Of step tickets only the latest of an epoch wait for one
  /// that is slow. False when the agent isn't there.
  bool Send(int node_id, const AgentCommand& command);
  /// Sends a node its `start`, of which `shared` is the part that all nodes share.
  void SendStart(int node_id, std::string own, std::shared_ptr<const std::string> shared);
  /// Closes the connection of an agent that doesn't answer.
  void Disconnect(int node_id);
  /// A node whose state has changed: if it is lost or has failed, those that stand by for it are
  /// sent away, as they can't take its place.
  void Dismiss(const NodeInfo& node);

 private:
  AgentConnection* Find(int node_id) const;

  std::unordered_map<AgentConnection*, int> node_of_;
  std::unordered_map<int, AgentConnection*> connection_of_;  // the one that speaks
  /// For the node of this number, in the order in which they came.
  std::vector<std::pair<AgentConnection*, int>> standing_by_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_AGENT_TABLE_H_
