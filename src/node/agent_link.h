#ifndef TFOS_NODE_AGENT_LINK_H_
#define TFOS_NODE_AGENT_LINK_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "control/link/node/node_link.h"
#include "control/messages/parts/shared_messages.h"
#include "node/generations.h"
#include "node/node_feed.h"
#include "tfos/status.h"

namespace tfos::node {

/// The node process's link to its agent, joined to its feed. Ends the feed when told to and
/// reports metrics, all without Python, so that a program that computes for minutes without
/// letting go of the GIL doesn't delay it.
///
/// Owner and lifetime: one for the process. Threads: any. Errors: Status; nothing here throws.
class AgentLink {
 public:
  /// Also sets up the process's log in the node's name. Call it on the main thread.
  static Result<std::unique_ptr<AgentLink>> FromEnvironment();
  /// The same over a link that has read its head and was not started.
  static Result<std::unique_ptr<AgentLink>> Start(std::unique_ptr<control::NodeLink> link);
  ~AgentLink();

  const std::string& bootstrap() const { return link_->bootstrap(); }
  std::string TakePayload() { return link_->TakePayload(); }

  /// Sends the latest metrics first: what a program reports right before it ends counts too.
  Status Send(const std::string& message);

  /// From now on this feed ends when the agent says so (at once if it has), and is reported.
  void Attach(std::shared_ptr<NodeFeed> feed);

  /// The program's own metrics: a JSON object, reported with the feed's at the next heartbeat.
  Status SetMetrics(const std::string& json);

  /// What is reported at this moment: a JSON object.
  std::string Metrics() const;

  /// From now on `take` profiles this process: as NodeLink::ServeProfiles has it.
  void ServeProfiles(control::NodeLink::TakeProfileOf take) {
    link_->ServeProfiles(std::move(take));
  }

  /// From now on `tell` says what the program's threads are at: as NodeLink::ServeStacks has it.
  void ServeStacks(control::NodeLink::TellStacksOf tell) { link_->ServeStacks(std::move(tell)); }

  /// What the coordinator says of the group that this node trains in.
  std::shared_ptr<Generations> generations() const;

  /// The nodes whose executors Spark is about to take away, by number, and why.
  std::map<int, std::string> Leaving() const;

  /// Finds where a node is that was lost and runs again; none for one that is where it was. Any
  /// thread may call it, as long as it likes.
  using FindMoved = std::function<std::optional<control::NodeMoved>(int node_id)>;
  FindMoved moved() const;

 private:
  struct State;
  AgentLink(std::shared_ptr<control::NodeLink> link, std::shared_ptr<State> state);

  std::shared_ptr<control::NodeLink> link_;  // Also held by a thread that sends a step report.
  std::shared_ptr<State> state_;             // Also held by the link's handlers.
};

}  // namespace tfos::node

#endif  // TFOS_NODE_AGENT_LINK_H_
