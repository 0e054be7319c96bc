#ifndef TFOS_SIMULATION_NODE_NODE_H_
#define TFOS_SIMULATION_NODE_NODE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "feed/read/steps/step_desk.h"
#include "simulation/node/member.h"
#include "simulation/node/program.h"
#include "simulation/node/reader.h"
#include "simulation/world/coordinator.h"

namespace tfos::simulation {

class Node;

/// What nodes know of each other. It hears of their ends.
class Neighbours {
 public:
  Neighbours() = default;
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  virtual ~Neighbours() = default;

  /// The node that listens there; null if there was none.
  virtual Node* FindFeed(const std::string& socket) = 0;
  /// It has ended, by itself or otherwise.
  virtual void OnDead(Node& node) = 0;
};

/// One attempt of a node, with its agent: from when it registers to its end.
///
/// Owner and lifetime: of a simulation, and as long as it: what is under way may still come.
/// Threads: one. Errors: `watch` is told.
class Node {
 public:
  struct World {
    const Scenario& scenario;
    Scheduler& scheduler;
    Random& random;
    Trace& trace;
    Watch& watch;
    Mesh& mesh;
    SimulatedCoordinator& coordinator;
    Neighbours& neighbours;
  };

  Node(World world, int node_id, int incarnation);

  int node_id() const { return node_id_; }
  int incarnation() const { return incarnation_; }
  bool is_dead() const { return life_ == Life::kDead; }
  bool is_running() const { return life_ == Life::kRunning; }
  bool is_frozen() const { return world_.scheduler.now() < frozen_until_; }
  bool is_refused() const { return refused_; }
  int generation() const { return member_ == nullptr ? -1 : member_->generation(); }

  /// Looks, after a while, whether it can go on.
  void Wake();

  // Feeders and other nodes.

  bool Has(int queue, int epoch, int chunk) const { return reader(queue).Has(epoch, chunk); }
  /// Takes the rows, or, if its feed is over, drops them.
  void Accept(int queue, int epoch, int chunk, const std::vector<int>& rows);
  void TakePassed(int queue, int from, const Reader::Pass& pass);
  void OnPassed(int queue, bool arrived);

  const Reader& reader(int queue) const { return *readers_[static_cast<std::size_t>(queue)]; }

  // What befalls it.

  enum class Death {
    kReported,  ///< Its agent tells of it, and leaves.
    kInOrder,   ///< Its agent has said all, and leaves.
    kWithHost,  ///< The connection ends, and nobody hears the last words.
    kSilent,    ///< Likewise, and nobody hears of the end.
  };
  void Die(Death death);
  void Freeze(milliseconds lasts);
  void PartFromCoordinator(milliseconds lasts);
  void Return();
  void Raise();

  std::string Describe() const;

 private:
  enum class Life { kComes, kRunning, kDead };

  void OnCommand(Connection::Down command);
  void OnStart(const control::StartNode& start);
  void Run(const control::StartNode& start);
  void OnStop();
  void MakeMember(const control::StartNode& start);
  void TellReader(const control::StepTickets& tickets);
  void Say(control::AgentMessage message);
  void Report(const feed::StepReport& report);
  void Bring(int queue, const Reader::Pass& pass);
  void Arrive(int queue, const Reader::Pass& pass, bool arrives, bool is_heard);
  void Beat();
  void Advance();
  void OnProgramEnd(Program::Step end);
  Reader& own(int queue) { return *readers_[static_cast<std::size_t>(queue)]; }

  const World world_;
  const int node_id_;
  const int incarnation_;
  const bool is_service_;
  Connection& connection_;
  Life life_ = Life::kComes;
  bool refused_ = false;
  bool wants_no_rows_ = false;
  bool told_to_stop_ = false;
  bool wakes_ = false;
  Scheduler::TimePoint frozen_until_{};
  feed::StepDesk tickets_;
  std::vector<std::unique_ptr<Reader>> readers_;
  std::unique_ptr<Member> member_;
  std::unique_ptr<Program> program_;
  // What came before its program runs: the latest of each.
  std::optional<control::Regroup> regroup_;
  std::optional<control::FormedGroup> group_;
  std::optional<control::NoGroup> none_;
  bool meet_ = false;
};

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_NODE_NODE_H_
