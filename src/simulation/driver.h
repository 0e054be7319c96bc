#ifndef TFOS_SIMULATION_DRIVER_H_
#define TFOS_SIMULATION_DRIVER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "simulation/node/node.h"

namespace tfos::simulation {

/// The driver, with the tasks of its jobs: python/tfos/cluster/ending.py and feed/whole_epochs.py,
/// and what docs/formats/feed-protocol.md says of nodes that are lost.
///
/// Owner and lifetime: of a simulation. Threads: one. Errors: none.
class Driver {
 public:
  using FindNode = std::function<Node*(int incarnation)>;

  Driver(const Scenario& scenario, Scheduler& scheduler, Random& random, Trace& trace, Watch& watch,
         SimulatedCoordinator& coordinator, FindNode find);

  void On(const control::CoordinatorEvent& event);
  /// The user wants the cluster to end.
  void Stop();

  /// It has heard that all nodes have ended.
  bool is_over() const { return finished_; }
  bool has_failed() const { return failed_; }
  bool was_stopped() const { return stopped_; }
  /// Whether that question is open, and no node was lost since: then it is asked again.
  bool Awaits(int number) const {
    return stage_ == Stage::kAwaitsDrained && number == number_ && watch_.losses() == losses_;
  }
  /// What it feeds, or waits for.
  int queue() const { return queue_; }
  int epoch() const { return epoch_; }
  std::string Describe() const;

 private:
  enum class Stage {
    kForms,
    kBegins,  ///< The next epoch.
    kAwaitsBegun,
    kFeeds,  ///< A job is to begin.
    kAwaitsJob,
    kAwaitsDrained,
    kEndsFeed,
    kAwaitsPrograms,  ///< As the feed is over, or the user has had it stopped.
    kAwaitsFinished,
  };
  struct Told {
    control::NodeState state = control::NodeState::kExpected;
    bool joins = false;
    int incarnation = -1;  ///< Where it listens; -1: nowhere yet.
  };

  void Tell(control::DriverMessage message);
  void Advance();
  bool AdvanceOnce();
  bool TakesPart(const Told& node) const;
  std::set<int> Gone() const;
  bool NobodyWantsRows() const;
  bool AllListen() const;
  void BeginJob();
  void FeedChunk(std::size_t chunk);
  void EndChunk();
  void EndEpoch(bool drained);
  control::DriverMessage Question(bool drained);
  /// They have not ended long after the feed was stopped.
  void EndPrograms();

  const Scenario& scenario_;
  Scheduler& scheduler_;
  Random& random_;
  Trace& trace_;
  Watch& watch_;
  SimulatedCoordinator& coordinator_;
  const FindNode find_;
  Link<control::DriverMessage> to_coordinator_;

  Stage stage_ = Stage::kForms;
  std::vector<Told> nodes_;
  std::set<int> terminated_;
  bool formed_ = false;
  bool failed_ = false;
  bool stopped_ = false;
  bool finished_ = false;
  std::string waiting_;
  int questions_ = 0;
  int begun_ = 0;
  int drained_ = 0;
  int number_ = 0;  ///< Of the question that is open.
  int losses_ = 0;  ///< When it was asked.
  int queue_ = 0;
  int epoch_ = 0;
  std::set<int> gone_;  ///< As the job began.

  // The job.
  struct Place {
    int node_id = 0;
    int incarnation = 0;
  };
  std::vector<std::vector<int>> chunks_;
  std::vector<Place> plan_;
  std::size_t left_ = 0;
};

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_DRIVER_H_
