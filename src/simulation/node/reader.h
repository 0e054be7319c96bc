#ifndef TFOS_SIMULATION_NODE_READER_H_
#define TFOS_SIMULATION_NODE_READER_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "feed/read/batch.h"
#include "feed/read/batch_reader.h"
#include "feed/read/steps/epoch_steps.h"
#include "feed/read/steps/step_desk.h"
#include "simulation/world/random.h"
#include "simulation/world/scenario.h"

namespace tfos::simulation {

/// The rows of one queue on a node, and its steps. What it decides of these are feed::EpochSteps
/// and feed::StepDesk, the real ones. feed::SynchronousBatches, which does what they say, waits in
/// its caller's thread and reads from sockets: this does the same without either.
///
/// Owner and lifetime: of a node. Threads: one. Errors: none.
class Reader {
 public:
  /// Rows on their way to another node. They stay here until `OnPassed` says that they have
  /// arrived.
  struct Pass {
    feed::Endpoint to;
    int epoch = 0;
    std::uint64_t number = 0;
    std::vector<int> rows;
  };
  struct Options {
    int node_id = 0;
    int queue = 0;
    std::function<void(Pass)> pass;
  };
  enum class Next {
    kWaits,
    kMoved,  ///< It goes on with the same call.
    kBatch,  ///< `batch` has its rows; with padding it may have none.
    kEndOfEpoch,
    kEndOfFeed,
  };

  Reader(Options options, const Scenario& scenario, feed::StepDesk& tickets, Random& random);

  // From feeders, other nodes and the agent.

  bool Has(int epoch, int chunk) const;
  void Accept(int epoch, int chunk, const std::vector<int>& rows);
  void TakePassed(int from, const Pass& pass);
  void OnPassed(bool arrived);
  void EndEpoch(int epoch) { ended_ = std::max(ended_, epoch); }
  void EndFeed(bool at_once) {
    feed_over_ = true;
    stopped_ = stopped_ || at_once;
  }

  // From the program. `kWaits` and `kMoved`: it calls again.

  Next Take();
  const std::vector<int>& batch() const { return batch_; }
  /// Rows that EndOfEpoch has dropped, once.
  std::vector<int> TakeDropped() { return std::exchange(dropped_, {}); }
  /// The one that is read now or, after its end, next.
  int epoch() const { return epoch_; }
  std::optional<int> EpochToBegin() const;
  void BeginAt(int epoch) { epoch_ = epoch; }
  /// As a program that asks what the rows of the next epoch hold.
  void TellEpoch();
  void Terminate() { terminated_ = true; }

  /// Batches that it has made of this epoch, and full ones that it has rows for with those.
  std::uint64_t made() const { return steps_.made(); }
  std::uint64_t full_batches() const;

  static std::string NameOf(int queue) { return queue == 0 ? "input" : "other"; }
  std::string Describe() const;

 private:
  struct Epoch {
    std::deque<int> rows;                     ///< That are still here.
    std::set<int> chunks;                     ///< That came, by number.
    std::deque<std::pair<int, Pass>> passed;  ///< By other nodes, and not taken over yet.
    std::set<std::pair<int, std::uint64_t>> pieces;
  };
  using Ahead = feed::BatchReader::Ahead;

  bool HasEnd(int epoch) const;
  Ahead LookAhead(std::uint64_t batches);
  Ahead WhatIsAhead() const;
  void Report(const Ahead& ahead, bool waits);
  std::optional<feed::StepGrant> Granted() const;
  /// Brings the next rows on their way, if any are left to pass on.
  Next PassOn(const feed::StepGrant& grant);
  Next TakeOver(const feed::StepGrant& grant);
  Next TakeStep(const Ahead& ahead, const feed::StepGrant& grant);
  Next End();

  const Options options_;
  const Scenario& scenario_;
  feed::StepDesk& tickets_;
  Random& random_;
  const std::string name_;
  const feed::BatchOptions batches_;
  feed::EpochSteps steps_;
  std::map<int, Epoch> epochs_;
  int ended_ = -1;
  bool feed_over_ = false;
  bool stopped_ = false;
  bool terminated_ = false;

  int epoch_ = 0;
  std::uint64_t seen_ = 0;  ///< Rows of it that were looked at.
  bool awaits_rows_ = true;
  bool to_end_ = false;    ///< It looks for the end of the epoch,
  bool end_seen_ = false;  ///< and has come to it.
  int looked_ = 0;
  std::optional<Pass> under_way_;
  std::optional<Pass> retry_;  ///< What did not arrive, as far as this node has heard.
  std::uint64_t pieces_ = 0;
  std::uint64_t stuck_ = 0;  ///< Of the last rows, so many can't be passed on.
  std::vector<int> batch_;
  std::vector<int> dropped_;
};

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_NODE_READER_H_
