#ifndef TFOS_SIMULATION_NODE_PROGRAM_H_
#define TFOS_SIMULATION_NODE_PROGRAM_H_

#include <memory>
#include <optional>
#include <vector>

#include "simulation/node/member.h"
#include "simulation/node/reader.h"
#include "simulation/world/scenario.h"
#include "simulation/world/watch.h"

namespace tfos::simulation {

/// What a node's program does, as `fit` does it: python/tfos/keras. It takes the state if it joins,
/// lets others in where it may, makes steps in which nodes without rows go along, and leaves.
///
/// Without a feed: so many steps, after each of which others may come in. With one: passes over its
/// queues in turn, to the end of the feed. Others come in before a pass over the first of them.
///
/// Owner and lifetime: of a node. Threads: one. Errors: none.
class Program {
 public:
  enum class Step {
    kWaits,
    kMoved,
    kReturned,  ///< It has returned, and goes on with its group: the node's feed is over.
    kDone,
    kFailed,  ///< The group has ended.
  };

  Program(const Scenario& scenario, int incarnation, bool joins, Member& member,
          std::vector<std::unique_ptr<Reader>>& readers, Watch& watch);

  /// The next piece of it.
  Step Advance();
  /// It returns as soon as it is between two transactions.
  void ReturnEarly() { returns_early_ = true; }
  std::string Describe() const;

 private:
  enum class Stage {
    kBegins,
    kComesIn,
    kShares,
    kSettles,
    kBeginsPass,
    kBarrier,
    kMeets,
    kTakes,
    kSteps,
    kLeaves,
    kOver,
  };

  Step Do(Member::Progress progress, Stage next);
  /// True once it is done; otherwise `step` says how it goes on.
  bool Transact(const Deed& deed, bool has_rows, Step& step);
  Step Share();
  Step BeginPass();
  Step TakeBatch();
  Step MakeStep();
  Step EndPass();
  Step ReturnNow();
  Place place() const;
  void GoTo(const Place& place);
  bool is_between() const { return stage_ == Stage::kBeginsPass || stage_ == Stage::kTakes; }

  const Scenario& scenario_;
  const int incarnation_;
  const bool joins_;
  Member& member_;
  std::vector<std::unique_ptr<Reader>>& readers_;
  Watch& watch_;
  Stage stage_ = Stage::kBegins;
  bool returns_early_ = false;
  bool sharing_in_ = false;  ///< With newcomers.
  int shared_ = 0;
  int round_ = 0;
  int step_ = 0;  ///< Of a program that is not fed.
  int queue_ = 0;
  int steps_ = 0;  ///< Of this pass.
  int epoch_ = 0;  ///< Of the step.
  bool has_batch_ = false;
  struct Queue {
    /// It has come to the end of this epoch, and goes along with the others until they have.
    std::optional<int> ended;
    bool feed_over = false;
    int passes_after = 0;  ///< Passes that have ended since then: the reader counts no epochs more.
    bool over = false;     ///< All have come to the end of the feed.
  };
  std::vector<Queue> queues_;
};

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_NODE_PROGRAM_H_
