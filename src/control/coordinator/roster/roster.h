#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_ROSTER_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_ROSTER_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/time/deadline.h"
#include "control/coordinator/roster/offices/generation_office.h"
#include "control/coordinator/roster/offices/host_losses.h"
#include "control/coordinator/roster/offices/latest_metrics.h"
#include "control/coordinator/roster/offices/node_transitions.h"
#include "control/coordinator/roster/offices/step_ticket_office.h"
#include "control/coordinator/roster/offices/step_watch.h"
#include "control/coordinator/roster/roles.h"
#include "control/messages/agent_messages.h"
#include "control/messages/driver_messages.h"
#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/parts/shared_messages.h"
#include "control/messages/progress/node_view.h"
#include "control/messages/status_messages.h"
#include "tfos/status.h"

namespace tfos::control {

// What the roster wants done. It does nothing itself.

struct TellDriver {
  CoordinatorEvent event;
};
struct TellAgent {
  int node_id = 0;
  AgentCommand command;
};
/// Send every agent its `start` (`Roster::Start`), or one that has come later.
struct PublishStart {
  std::optional<int> node_id;
};
/// Close the connection of an agent that doesn't answer any more.
struct Disconnect {
  int node_id = 0;
};

/// Ask a node where its threads are, for `Roster::TakeStacks`.
struct AskStacks {
  int node_id = 0;
  int number = 0;  ///< Of the questions to this node.
};

using Effect = std::variant<TellDriver, TellAgent, PublishStart, Disconnect, AskStacks>;
using Effects = std::vector<Effect>;

struct RosterOptions {
  std::string cluster_id;
  std::string name = {};      ///< Of the application, for people.
  std::vector<Role> roles;    // by node id
  int tensorboard_node = -1;  // -1: none
  std::chrono::milliseconds registration_timeout{600'000};
  std::chrono::milliseconds start_timeout{600'000};  // from formed to `running`, of each node
  std::chrono::milliseconds heartbeat_timeout{10'000};
  /// How long a node that makes steps may make none and read no row, while it does not wait for
  /// rows. Zero: for ever.
  std::chrono::milliseconds step_timeout{0};
  /// Between TERM and KILL, where the driver does not say it.
  std::chrono::milliseconds stop_grace{5'000};
  /// Nodes that may be lost once the cluster has formed without ending it: any that are fed but the
  /// chief, which is the first of them.
  int max_lost_nodes = 0;
  /// Nodes that train go on together as long as this many of them are there. 0: they do not.
  int min_nodes = 0;
  /// How long those that are left wait for others when they are fewer; zero: the cluster fails.
  std::chrono::milliseconds min_nodes_timeout{0};
  /// How many nodes may be lost and restarted, counted from node 0, each within
  /// `min_nodes_timeout`: native parameter servers, of whose values those that train keep copies.
  int returning_nodes = 0;
  /// With `min_nodes`, nodes may come in place of lost ones, and late.
  bool late_nodes = false;
  /// Then the cluster forms without those that have not come so long after the last.
  std::chrono::milliseconds grow_after{15'000};
  /// With `late_nodes`, no node comes to a host on which so many were lost within `loss_period`, as
  /// long as others could take it. 0: to any host.
  int max_losses_of_host = 0;
  /// After which a loss is forgotten: that of a host, and that of a node.
  std::chrono::milliseconds loss_period{3'600'000};
  /// How often a lost node may come again within `loss_period`; then it is given up.
  int restarts = 15;
  std::string coordinator_address;  // as agents are told it, for explanations
};

/// The nodes of a cluster and their states: the membership state machine.
///
/// Everything that happens is told to it, with the time it happened, and it answers with what is to
/// be done. The first failure wins: it is reported once, and every other node is stopped because of
/// it, unless it is a loss that the cluster was told to bear. An error that names another node
/// waits for a moment, and the failure that it may follow from comes first. It never starts a node
/// again: that is up to Spark and the launch tasks.
///
/// Owner and lifetime: owned by the coordinator; a value. Threads: one at a time.
/// Errors: only `Register` fails; what makes no sense (an unknown transition, a message of a node
/// that is over) changes nothing. Units: times are those of one monotonic clock.
class Roster {
 public:
  using TimePoint = Clock::TimePoint;

  Roster(RosterOptions options, TimePoint now);

  // What agents say. `node_id` must be one that registered on that connection.

  /// Bad input, with the reason for the agent, when the node can't be taken.
  Result<Effects> Register(const control::Register& message, TimePoint now);
  /// What follows when `Register` has refused it at the same time: the driver hears of a node that
  /// is to come on another host.
  Effects Refused(const control::Register& message, TimePoint now);
  /// Whether an attempt has registered as this node and is neither lost nor failed.
  bool IsTaken(int node_id) const;
  Effects SetState(int node_id, const StateReport& report, TimePoint now);
  Effects RecordHeartbeat(int node_id, const Heartbeat& heartbeat, TimePoint now);
  Effects RecordSteps(int node_id, const StepReport& report, TimePoint now);
  Effects RecordReady(int node_id, const GroupReady& ready, TimePoint now);
  Effects FeedTerminated(int node_id, TimePoint now);
  Effects Fail(int node_id, const FailureReport& report, TimePoint now);
  Effects Finish(int node_id, TimePoint now);
  Effects ConnectionLost(int node_id, TimePoint now);
  /// Where its threads are, for people, as the `AskStacks` of this number has asked. The answer to
  /// an earlier one than the last is nobody's: the node has made steps since.
  void TakeStacks(int node_id, int number, std::string stacks);

  // What the driver says.

  Effects EndEpoch(const control::EndEpoch& ended, TimePoint now);
  Effects EndJob(const control::EndJob& ended);
  Effects AbandonEpoch(const control::AbandonEpoch& abandoned);
  Effects AskDrained(const control::AskDrained& asked);
  Effects BeginEpoch(const control::BeginEpoch& begun, TimePoint now);
  Effects EndFeed(const control::EndFeed& ended, TimePoint now);
  Effects Leave(const NodeLeaving& leaving, TimePoint now);
  Effects StopAll(const Stop& stop, TimePoint now);
  Effects FailFromDriver(const DriverFailure& failure, TimePoint now);

  /// Looks at the deadlines: of registration, of each node's start, and of each one's heartbeat
  /// and steps.
  Effects Tick(TimePoint now);

  /// Every node is done, failed, lost or stopped, and its agent has left.
  bool finished() const { return finished_; }
  const std::optional<Failure>& failure() const { return failure_; }
  /// When `Tick` is to be called at the latest, for a failure that is held back.
  std::optional<TimePoint> held_back_until() const {
    return held_back_ ? std::optional(held_back_->until) : std::nullopt;
  }

  std::size_t node_count() const { return nodes_.size(); }
  /// The state of one of them.
  NodeState StateOf(int node_id) const {
    return nodes_[static_cast<std::size_t>(node_id)].info.state;
  }
  std::vector<NodeInfo> Nodes(TimePoint now) const;
  ClusterStatus Snapshot(TimePoint now) const;
  /// Until something of the roster changes.
  std::vector<NodeView> Views() const;
  /// The `start` of a node without the parts that all nodes share (`SharedStart`).
  StartNode Start(int node_id) const;
  /// Cluster specification, number of workers and nodes: the same in every node's `start`.
  StartNode SharedStart(TimePoint now) const;
  /// Metrics of nodes that reported any other than the last time this was called.
  std::vector<NodeMetrics> TakeChangedMetrics();

 private:
  struct Node {
    NodeInfo info;
    bool service = false;
    bool connected = false;        // its agent is there, and its node may still run
    bool feed_terminated = false;  // it wants no more rows
    TimePoint since;               // of the state
    std::string detail_of_state;
    TimePoint heard;  // the last sign of life
    LatestMetrics metrics;
    StepWatch steps;
    /// Since when it is asked for its stacks, as it makes no steps, and what it answered.
    std::optional<TimePoint> stacks_asked_at;
    std::optional<std::string> stacks;
    int stacks_number = 0;         ///< Of the last question.
    std::deque<TimePoint> losses;  // within `loss_period`
    bool unreachable = false;      // for those that train: it may not come again
    bool came_late = false;        // the cluster had formed before
    std::optional<Failure> loss;   // of one that is to come again, and has not
    bool told_to_stop = false;     // it alone, and not its cluster
    /// Since when it has come to hosts that are avoided, and to no other.
    std::optional<TimePoint> turned_away_at;
  };

  /// A failure that may follow from another, which has not come yet.
  struct HeldBack {
    Failure failure;
    std::string reason;  // why the others are to stop
    TimePoint until;
    std::optional<Stop> stop;  // of the driver, put off: a node that is stopped tells no cause
  };

  Node* Find(int node_id);
  /// Whether it is known why the node makes no steps.
  static bool HasReasonForNoStep(const Node& node);
  /// Whether the limit for the time without a step holds for it.
  bool IsToMakeSteps(const Node& node) const;
  /// Whether it makes no steps as it mostly waits for other nodes.
  bool IsHeldUp(const Node& node) const;
  /// The node to blame for that nodes have made no steps for too long. nullptr: there is none.
  Node* FindStuck();
  /// Ends a node that has made no steps for too long.
  void LookAtSteps(TimePoint now, Effects& effects);
  /// Whatever kept the nodes from making steps is over.
  void ExcuseSteps(TimePoint now);
  /// `command` for each node that takes rows.
  Effects TellFed(const AgentCommand& command) const;
  NodeInfo Info(const Node& node, TimePoint now) const;
  /// Which executor Spark takes away, or that it is none any more.
  void TellAll(const NodeLeaving& leaving, Effects& effects) const;
  /// Of a node that gets no more rows, for people.
  const char* WordsOfFeedEnd() const;
  /// Makes a node that runs draining, as the feed has ended. What it says of itself stays.
  void DrainAsFed(Node& node, TimePoint now, Effects& effects);
  /// Changes the state if the table allows it, and tells the driver. False when it does not.
  bool Become(Node& node, NodeState state, std::string detail, TimePoint now, Effects& effects);
  /// What a node is whose process has ended in order, and why: `stopped` if the cluster was told to
  /// stop, or has failed, before the program had returned.
  std::pair<NodeState, std::string> EndOf(const Node& node) const;
  /// Whether the node is restarted when it is lost.
  bool Returns(const Node& node) const { return node.info.node_id < options_.returning_nodes; }
  /// Tells the nodes that train where one is that came again.
  void TellMoved(const Node& node, Effects& effects) const;
  /// The cluster fails if one that is to come again takes too long.
  void LookAtReturning(TimePoint now, Effects& effects);
  /// Whether the programs of all nodes that train have ended, or these are lost.
  bool TrainingHasEnded() const;
  /// Whether the cluster goes on without the node.
  bool MayLose(const Node& node) const;
  /// The end of a node whose agent is gone: a failure, told in `message`, unless it may be lost.
  void Lose(Node& node, const std::string& detail, const std::string& message, TimePoint now,
            Effects& effects);
  /// The end of a node that came, and that those that train can't reach.
  void GiveUp(Node& node, TimePoint now, Effects& effects);
  void Publish(TimePoint now, Effects& effects);
  /// The failure of a node that doesn't get to call its program.
  void FailToStart(Node& node, TimePoint now, Effects& effects);
  /// Ends a node that hangs. `bearable`: the others do without it.
  void EndStuck(Node& node, FailureReport report, bool bearable, TimePoint now, Effects& effects);
  /// Spreads the failure of a node that has told it in `report`. If it may follow from what became
  /// of another, which it names, it is held back for a moment, in which the cause may come.
  void TakeFailure(const Node& node, const FailureReport& report, Failure failure,
                   const std::string& reason, TimePoint now, Effects& effects);
  std::vector<const Node*> OthersNamed(const Node& node, const FailureReport& report) const;
  /// Spreads what is held back once no cause has come.
  void LookAtHeldBack(TimePoint now, Effects& effects);
  void SpreadHeldBack(TimePoint now, Effects& effects);
  /// The first failure: tells the driver, and stops all nodes because of `reason`.
  void Spread(Failure failure, const std::string& reason, TimePoint now, Effects& effects);
  /// Keeps the program's error of a node that the others do without.
  void RememberError(Failure failure, TimePoint now);
  /// The failure of the node that was lost with the same error of its program first, within
  /// `loss_period`. nullptr: none was.
  const Failure* FirstWithErrorOf(const FailureReport& report) const;
  /// The nodes that take rows.
  StepTicketOffice::Members Fed() const;
  /// The nodes that train together, as a generation has them.
  GenerationOffice::Nodes Training() const;
  bool is_elastic() const { return options_.min_nodes > 0; }
  /// Why the node may not come in place of the one that had its number, or late; OK if it may.
  Status CheckLate(const Node& node) const;
  Status CheckReturning(const Node& node) const;
  /// Why the node may not come to this `host`, which is avoided, for people; empty if it may.
  std::string WhyTurnedAway(const Node& node, const std::string& host, TimePoint now) const;
  /// A node was lost, and its program is not to blame.
  void BlameHost(const Node& node, TimePoint now);
  /// Whether it has come late, and is in no generation yet.
  bool IsNewcomer(const Node& node) const;
  /// Whether enough nodes are there to begin with, and no other has come for a while.
  bool MayFormWithFewer(TimePoint now) const;
  /// What follows when a node that is not needed is lost. `failure`: what it would be otherwise.
  void GoOnWithout(const Node& node, Failure failure, TimePoint now, Effects& effects);
  /// Forgets losses that are older than `loss_period`.
  void ForgetLosses(TimePoint now);
  /// Why nobody comes in place of a node that is lost; empty if others may, or need not.
  std::string WhyNobodyComes(const Node& node) const;
  /// Tells nodes of their generation.
  void TellOfGeneration(const GenerationOffice::Outcome& outcome, TimePoint now, Effects& effects);
  /// Tells the driver who waits for whom, and looks at how long there are too few.
  void LookAtWaits(TimePoint now, Effects& effects);
  /// Once those that train have ended, others came too late.
  void EndLateNodes(TimePoint now, Effects& effects);
  /// Stops a node that has come too late.
  void StopLate(Node& node, const std::string& reason, TimePoint now, Effects& effects);
  /// Tells the driver, if it waits for that, that nobody comes in any more before its epoch.
  void LookAtBegun(TimePoint now, Effects& effects);
  /// Tells these tickets to all nodes that take rows, and the driver if it waits for what they
  /// have made.
  void Grant(const std::vector<StepTickets>& tickets, Effects& effects);
  void LookAtDrained(Effects& effects);
  void StopEach(const Stop& stop, TimePoint now, Effects& effects);
  void CheckFinished(Effects& effects);

  RosterOptions options_;
  TimePoint begun_;
  std::vector<Node> nodes_;
  std::optional<Failure> failure_;
  std::optional<HeldBack> held_back_;
  std::string stop_reason_;  // empty until all nodes were asked to stop
  bool feed_ended_ = false;
  bool feed_ended_at_once_ = false;  // by `tfos stop`
  StepTicketOffice step_tickets_;
  std::optional<control::AskDrained> drained_asked_;  // and not answered
  std::optional<control::BeginEpoch> begin_asked_;    // and not answered
  std::optional<control::BeginEpoch> begun_epoch_;    // before its end nobody comes in
  TimePoint begin_asked_at_;
  bool some_came_in_ = false;  // since some may
  GenerationOffice generations_;
  HostLosses host_losses_;
  std::optional<TimePoint> formed_at_;
  TimePoint last_came_;                   // a node
  std::optional<TimePoint> below_since_;  // fewer nodes than needed
  std::optional<Failure> last_loss_;      // that was borne
  /// The first loss with each error of the program, within `loss_period`.
  std::deque<std::pair<TimePoint, Failure>> errors_;
  std::string told_of_wait_;  // the driver
  bool finished_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_ROSTER_H_
