#ifndef TFOS_SIMULATION_WORLD_WATCH_H_
#define TFOS_SIMULATION_WORLD_WATCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/coordinator/roster/roster.h"
#include "simulation/world/mesh.h"
#include "simulation/world/scenario.h"
#include "simulation/world/scheduler.h"

namespace tfos::simulation {

/// What must hold, looked at after every event, and what came of each row. It knows the protocol's
/// promises (docs/formats/generations.md, control-protocol.md) and nothing of how the roster keeps
/// them.
///
/// Owner and lifetime: of a simulation. Threads: one. Errors: the first promise that is broken.
/// An *incarnation* is one life of a node: each has a number of its own, below 64.
class Watch {
 public:
  Watch(const Scenario& scenario, const Scheduler& scheduler)
      : scenario_(scenario),
        scheduler_(scheduler),
        reports_(static_cast<std::size_t>(scenario.nodes())) {}

  /// Why a promise is broken; empty as long as none is.
  const std::string& violation() const { return violation_; }
  void Break(std::string what) {
    if (violation_.empty()) violation_ = std::move(what);
  }

  // What the coordinator hears and says.

  void Registered(int node_id, int incarnation);
  void Heard(int node_id, const control::StepReport& report);
  void Heard(int node_id, const control::GroupReady& ready);
  void Stopped() { stopped_ = true; }
  /// The driver says that the epoch that it has fed has ended, or that all have.
  void HearEndOfEpoch();
  void HearEndOfFeed(bool at_once) {
    closed_ = true;
    feed_stopped_ = feed_stopped_ || at_once;
  }
  void Said(const control::Effects& effects, const control::Roster& roster);

  // What nodes and the driver do.

  void Returned(int incarnation, std::int64_t transaction, const Result& result);
  /// Rows that it has got, from feeders or from another node.
  void Took(int incarnation, int queue, int epoch, const std::vector<int>& rows);
  /// In a step that has ended; `trained` false: they were dropped at the end of the epoch.
  void Used(int incarnation, int queue, int epoch, const std::vector<int>& rows, bool trained);
  /// The program of a node returned early: what it had got may be lost.
  void ReturnedEarly(int incarnation) { returned_early_ |= Mask{1} << incarnation; }
  bool returned_early() const { return returned_early_ != 0; }
  /// The driver has fed it; `drained`: and has waited for the steps.
  void EpochEnded(int queue, int epoch, bool drained);
  /// All programs have come to their end.
  void CheckRows();

  /// The question of the driver that the coordinator has just answered: all steps are made.
  std::optional<int> TakeDrained() { return std::exchange(drained_number_, std::nullopt); }
  const std::set<int>& members() const { return members_; }
  int IncarnationOf(int node_id) const { return incarnation_of_.at(node_id); }
  bool IsLost(int incarnation) const { return lost_at_.contains(incarnation); }

  // What has happened.

  int losses() const { return static_cast<int>(lost_at_.size()); }
  int groups() const { return groups_; }
  int came_late() const { return came_late_; }
  /// Epochs of which the rows of each node were compared, as they ended and as they were to end.
  int ended_evenly() const { return ended_evenly_; }
  int planned_evenly() const { return planned_evenly_; }

 private:
  using Key = std::pair<std::string, int>;  // queue and epoch
  using Mask = std::uint64_t;               // of incarnations
  struct Fate {
    Mask took = 0;
    Mask trained = 0;
    Mask dropped = 0;
  };
  struct Epoch {
    std::vector<Fate> rows;
    std::optional<std::uint64_t> drained_at;  ///< The last answer to the driver, by events.
    bool drained = false;
    bool ended = false;
  };

  void Check(const control::StepTickets& tickets, const std::set<int>& told);
  void CheckPasses(const control::StepTickets& tickets, const std::set<int>& told);
  void Check(const control::FormedGroup& group, const std::set<int>& told,
             const control::Roster& roster);
  /// A member that has neither left nor ended.
  bool IsTraining(int node_id, const control::Roster& roster) const;
  void Lose(int node_id);
  Fate& FateOf(int queue, int epoch, int row);
  void CheckEvenness(int queue, int epoch, const Epoch& known);

  const Scenario& scenario_;
  const Scheduler& scheduler_;
  std::string violation_;
  bool stopped_ = false;
  bool feed_stopped_ = false;
  bool failed_ = false;
  bool finished_ = false;
  Mask returned_early_ = 0;

  std::vector<std::map<Key, control::StepReport>> reports_;  ///< By node, of its incarnation.
  std::map<Key, std::set<int>> ended_;  ///< The nodes that have said so, also those that left.
  std::map<Key, control::StepTickets> granted_;
  std::map<int, control::GroupReady> ready_;  ///< By node, the last one.
  std::set<int> members_;
  int opened_ = 0;        ///< The last generation of a `regroup`,
  int formed_group_ = 0;  ///< and of a `group`.
  std::int64_t committed_ = 0;
  std::map<int, int> incarnation_of_;                       ///< By node.
  std::map<int, std::uint64_t> lost_at_;                    ///< By incarnation, in events.
  std::map<int, std::map<std::int64_t, Result>> returned_;  ///< By incarnation and transaction.
  std::map<std::pair<int, int>, Epoch> epochs_;             ///< By queue and epoch.
  bool formed_ = false;
  int began_with_ = 0;  ///< Members, when it formed.
  /// Between `epoch_begins` and the end of that epoch nobody comes in.
  bool closed_ = false;
  bool expects_meet_ = false;
  std::optional<int> drained_number_;
  int groups_ = 0;
  int came_late_ = 0;
  int ended_evenly_ = 0;
  int planned_evenly_ = 0;
};

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_WORLD_WATCH_H_
