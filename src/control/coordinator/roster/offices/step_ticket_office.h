#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_STEP_TICKET_OFFICE_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_STEP_TICKET_OFFICE_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control/messages/parts/shared_messages.h"

namespace tfos::control {

/// Decides how many steps of synchronous training every node can make, from what each has told of
/// the batches it can make: a step that one node began and another has no rows for would wait for
/// ever in its all-reduce.
///
/// What it knows of a node in an epoch:
///   missing   nothing is granted
///   reported  it has so many full batches, and perhaps more later
///   ended     it has all its rows. That binds the others even when the node has left: it may have
///             made, or never make, the steps that it reported
/// A grant never shrinks. It is final once all have ended. Then the nodes that have more rows than
/// others pass some on, so that an epoch in full batches loses, and one with padding adds, fewer
/// rows than a batch for each node. A node that leaves before it has ended is left out.
/// Once it is stopped, it grants nothing more: what it has granted by then is final, so all end
/// after the same step.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none. Units: batches.
class StepTicketOffice {
 public:
  /// The most epochs of all queues together, those that not all nodes have left behind.
  static constexpr std::size_t kMostEpochs = 4096;

  /// The nodes that train, by id, with names for people.
  using Members = std::map<int, std::string>;

  /// Whether it can take the report. It can't when nodes report ever new queues or epochs, of which
  /// the others know nothing.
  bool HasRoomFor(const StepReport& report) const;
  /// What has changed, to be told to all members; an answer of the same epoch replaces the last.
  std::vector<StepTickets> Report(int node_id, const StepReport& report, const Members& members);
  std::vector<StepTickets> MembersChanged(const Members& members);
  /// Nobody is to begin a step that was not granted yet.
  std::vector<StepTickets> Stop(const Members& members);
  /// Has the members look what rows of the epoch they have: more may have come since they
  /// reported. `number` is above all earlier ones.
  std::vector<StepTickets> Look(const std::string& queue, int epoch, int number,
                                const Members& members);
  /// Whether every member has looked since then, has made all steps of the epoch that it has
  /// tickets for, and waits for more.
  bool IsDrained(const std::string& queue, int epoch, const Members& members) const;
  /// The driver has ended an epoch: nobody waits for rows of it any more.
  void EpochEnded(const std::string& queue, int epoch);
  /// By queue, the last epoch that the driver has ended.
  const std::map<std::string, int>& ended() const { return ended_; }
  /// Whether a member waits for rows of another queue, whose epoch has not ended. While the driver
  /// feeds this queue alone, it has left the queue's epoch in the middle.
  bool IsLeft(const std::string& queue, const Members& members) const;
  /// Whether a node has reported on this epoch of the queue, or on a later one.
  bool HasBegun(const std::string& queue, int epoch) const;

 private:
  struct Epoch {
    std::map<int, StepReport> reports;
    StepTickets told;
  };
  using Key = std::pair<std::string, int>;  // queue and epoch

  StepTickets Decide(const Key& key, const Epoch& epoch, const Members& members) const;
  void Update(const Key& key, Epoch& epoch, const Members& members,
              std::vector<StepTickets>& changed) const;
  /// Epochs that every member has left behind.
  void ForgetBefore(const std::string& queue, const Members& members);

  std::map<Key, Epoch> epochs_;
  std::map<std::string, int> ended_;
  bool stopped_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_STEP_TICKET_OFFICE_H_
