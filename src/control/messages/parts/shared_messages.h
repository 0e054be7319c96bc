#ifndef TFOS_CONTROL_MESSAGES_PARTS_SHARED_MESSAGES_H_
#define TFOS_CONTROL_MESSAGES_PARTS_SHARED_MESSAGES_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/messages/parts/message_text.h"
#include "control/messages/parts/node_info.h"

// The messages that more than one link carries.
//
// Owner and lifetime: values. Threads: plain data. Units: as docs/formats/control-protocol.md says,
// where each field has its name of here.
namespace tfos::control {

struct EndFeed {
  static constexpr std::string_view kType = "end_feed";
  /// `tfos stop`: rows that a node holds are not read any more, where it may make fewer steps than
  /// the others.
  bool at_once = false;
};

/// Every row of this epoch of a queue, counted through the cluster's life, has been fed.
struct EndEpoch {
  static constexpr std::string_view kType = "end_epoch";
  std::string queue;
  int epoch = 0;
};

/// The job that fed this epoch was interrupted: nothing of it is replayed, and the next job feeds
/// the epoch from its beginning.
struct AbandonEpoch {
  static constexpr std::string_view kType = "abandon_epoch";
  std::string queue;
  int epoch = 0;
  std::string job;  ///< Its id in hexadecimal digits, as in the plan of a feed.
};

/// A job that fed has ended, in whatever way: no task of it comes any more.
struct EndJob {
  static constexpr std::string_view kType = "end_job";
  std::string job;  ///< As above.
};

/// How many batches of an epoch a node can make for synchronous training.
struct StepReport {
  static constexpr std::string_view kType = "step_report";
  std::string queue;
  int epoch = 0;
  /// Full ones that it has got the rows for, those it has made included.
  std::int64_t full_batches = 0;
  /// It has got all its rows of the epoch: `full_batches` is final, and `batches` counts.
  bool ended = false;
  /// Those, and one that is not full.
  std::int64_t batches = 0;
  /// Once it has ended: its rows of the epoch, those in batches included; of them the ones that it
  /// can pass on to other nodes; and those of a batch.
  std::int64_t rows = 0;
  std::int64_t passable_rows = 0;
  std::int64_t batch_rows = 0;
  /// Batches that it has made. With `waits` it makes no other before more rows or tickets come.
  /// Only nodes of an elastic cluster say so.
  std::int64_t made = 0;
  bool waits = false;
  /// The last StepTickets::look that it had got when it looked what rows it has.
  int looked = 0;
};

/// Rows of an epoch that one node passes on to another one, so that both end it with as many.
struct RowPass {
  int from = 0;
  int to = 0;
  std::int64_t rows = 0;
  /// The address of the node that gets them; the coordinator's roster has it.
  std::string address;
  FeedEndpoint feed;

  friend bool operator==(const RowPass&, const RowPass&) = default;
};

/// How many steps of an epoch every node can make.
struct StepTickets {
  static constexpr std::string_view kType = "step_tickets";
  std::string queue;
  int epoch = 0;
  std::int64_t granted = 0;
  /// All nodes have got all their rows: it will not grow.
  bool final = false;
  /// The most batches that a node makes, as far as that is known.
  std::int64_t longest = 0;
  /// A node has got all its rows: what the others have got is all, too.
  bool ending = false;
  /// What `granted` and `longest` count on once all have ended.
  std::vector<RowPass> passes;
  /// Nodes that have not reported yet, for people.
  std::vector<std::string> missing;
  /// When it grows, nodes look what rows they have, and report it with this number.
  int look = 0;

  friend bool operator==(const StepTickets&, const StepTickets&) = default;
};

/// Spark is about to take a node's executor away: what every node hears of it.
struct NodeLeaving {
  static constexpr std::string_view kType = "leaving";
  int node_id = 0;
  /// For people. Empty: it has gone, and will not be lost any more.
  std::string reason;
};

/// A node that serves others was lost and runs again: where those that it serves find it now.
struct NodeMoved {
  static constexpr std::string_view kType = "moved";
  int node_id = 0;
  std::string name;  ///< For people, such as `ps:0 on host b`.
  std::string address;
  int tensor_port = 0;
};

struct Stop {
  static constexpr std::string_view kType = "stop";
  std::string reason;
  std::chrono::milliseconds grace{0};
};

/// Another attempt of the launch task has the node already: this one waits until Spark ends it, or
/// is told that the other one's node is lost or has failed.
struct StandBy {
  static constexpr std::string_view kType = "stand_by";
  /// For people.
  std::string reason;
};

struct StateReport {
  static constexpr std::string_view kType = "state";
  NodeState state = NodeState::kExpected;
  std::string detail;
  std::int64_t pid = 0;
  std::optional<FeedEndpoint> feed;
  std::optional<TensorBoardProcess> tensorboard;
};

struct FailureMessage {
  static constexpr std::string_view kType = "failed";
  FailureReport failure;
};

struct FeedTerminated {
  static constexpr std::string_view kType = "feed_terminated";
};

struct Done {
  static constexpr std::string_view kType = "done";
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_SHARED_MESSAGES_H_
