#ifndef TFOS_SIMULATION_WORLD_COORDINATOR_H_
#define TFOS_SIMULATION_WORLD_COORDINATOR_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "control/coordinator/roster/roster.h"
#include "control/messages/agent_messages.h"
#include "control/messages/driver_messages.h"
#include "simulation/world/link.h"
#include "simulation/world/scenario.h"
#include "simulation/world/watch.h"

namespace tfos::simulation {

/// An agent's connection. No message: the end of the stream.
struct Connection {
  using Up = std::optional<control::AgentMessage>;
  using Down = std::optional<control::AgentCommand>;

  int node_id = 0;
  int incarnation = 0;
  std::unique_ptr<Link<Up>> up;      ///< To the coordinator.
  std::unique_ptr<Link<Down>> down;  ///< To the agent.
  bool registered = false;
};

/// The real roster, with the connections around it as control/coordinator/coordinator.cc has them.
///
/// Owner and lifetime: of a simulation. Threads: one. Errors: what the roster says.
class SimulatedCoordinator {
 public:
  SimulatedCoordinator(const Scenario& scenario, Scheduler& scheduler, Random& random, Trace& trace,
                       Watch& watch, std::function<void(control::CoordinatorEvent)> to_driver);

  /// Opens the link of a new attempt of a node; what comes to its agent is given to `deliver`.
  Connection& Open(int node_id, int incarnation, std::function<void(Connection::Down)> deliver);
  void FromDriver(const control::DriverMessage& message);

  /// As `/v1/status` says: whether this life of a node is over.
  bool HasEnded(int node_id, int incarnation) const;
  const control::Roster& roster() const { return roster_; }
  bool stopped() const { return stopped_; }

 private:
  void OnMessage(Connection& connection, Connection::Up message);
  void OnClosed(Connection& connection);
  void Admit(Connection& connection, const control::Register& registration);
  control::Effects Handle(int node_id, const control::AgentMessage& message);
  void Apply(control::Effects effects);
  void Command(int node_id, control::AgentCommand command);
  void Start(std::optional<int> only);
  void Tick();

  const Scenario& scenario_;
  Scheduler& scheduler_;
  Random& random_;
  Trace& trace_;
  Watch& watch_;
  control::Roster roster_;
  Link<control::CoordinatorEvent> to_driver_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<int, Connection*> connection_of_;  ///< By node.
  bool stopped_ = false;
};

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_WORLD_COORDINATOR_H_
