#ifndef TFOS_CONTROL_MESSAGES_DRIVER_MESSAGES_H_
#define TFOS_CONTROL_MESSAGES_DRIVER_MESSAGES_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/crypto/secret.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/parts/shared_messages.h"
#include "control/messages/progress/run_progress.h"
#include "tfos/status.h"

// What the driver and the coordinator tell each other.
//
// Owner and lifetime: values. Threads: plain data. Units: as docs/formats/control-protocol.md says,
// where each field has its name of here.
namespace tfos::control {

// From the driver to the coordinator.

struct RoleCount {
  std::string job;
  int count = 0;
};

struct StartCluster {
  static constexpr std::string_view kType = "start";
  int protocol = kProtocolVersion;
  std::string cluster_id;
  std::string name;  ///< Of the application, for people.
  Secret token;
  std::string scrape_token;  ///< For the metrics, in place of a key of the token's. Empty: that.
  std::string encrypt = "auto";  ///< As `spark.tfos.encrypt` has it.
  std::string bind_address;
  std::string advertised_address;
  std::string ports;
  std::vector<RoleCount> roles;
  std::vector<std::string> service_jobs;
  /// The node that TensorBoard runs beside; -1: none.
  int tensorboard_node = -1;
  std::chrono::milliseconds registration_timeout{600'000};
  std::chrono::milliseconds start_timeout{600'000};
  std::chrono::milliseconds heartbeat_interval{1'000};
  std::chrono::milliseconds heartbeat_timeout{10'000};
  /// How long a node that makes steps may make none, while it does not wait for rows; 0: for ever.
  std::chrono::milliseconds step_timeout{0};
  /// Between TERM and KILL, where the driver's own `stop` does not say it.
  std::chrono::milliseconds stop_grace{5'000};
  /// Nodes that may be lost without ending the cluster.
  int max_lost_nodes = 0;
  /// Nodes that train together go on as long as this many are not lost; 0: until the first is lost.
  int min_nodes = 0;
  /// How long those that are left wait for others when they are fewer, and for a node that is to
  /// come again.
  std::chrono::milliseconds min_nodes_timeout{0};
  /// With `min_nodes`, nodes may come in place of lost ones, and late.
  bool late_nodes = false;
  /// They come to no host on which so many were lost within `loss_period`, as long as others could
  /// take them. 0: to any.
  int max_losses_of_host = 0;
  std::chrono::milliseconds loss_period{3'600'000};
  /// How often a lost node may come again within `loss_period`.
  int restarts = 15;
  /// How many nodes may be lost and restarted, from node 0 on: others keep copies of their state.
  int returning_nodes = 0;
  std::string log_level;
};

struct DriverFailure {
  static constexpr std::string_view kType = "fail";
  int node_id = -1;
  FailureReport report;
};

/// What the driver is at, and what it knows of the rows that it feeds.
struct Activity {
  static constexpr std::string_view kType = "activity";
  std::string doing;
  std::int64_t items_read = 0;   ///< From Spark, by tasks that have ended.
  std::int64_t items_moved = 0;  ///< Of those, from lost nodes to others.
  std::string unit;              ///< What an item is, for people: "rows", "pickled batches".
  bool cut_short = false;        ///< What some tasks have read is not known.
  std::int64_t epoch = 0;        ///< That is fed now, of `epochs`; from 1. 0: none is.
  std::int64_t epochs = 0;
  std::int64_t epochs_before = 0;  ///< Of these, that an earlier cluster has trained.
  double epoch_fed = 0;            ///< The share of it that was fed, as far as that is known.
  /// What the nodes had begun with before the first of these epochs, and what all of them hold,
  /// in items. The second is 0 as long as nobody knows it.
  std::int64_t items_before = 0;
  std::int64_t items_planned = 0;
};

/// Asks for `epoch_drained`: once every node has made the steps that the rows fed so far allow, or
/// one waits for rows of another queue.
struct AskDrained {
  static constexpr std::string_view kType = "ask_drained";
  std::string queue;
  int epoch = 0;
  int number = 0;  ///< Of the question. A later one takes the place of an earlier one.
};

/// The driver is about to feed an epoch. Asks for `epoch_begins`: once no node waits to be let in
/// before it. From then on none is let in before the epoch has ended.
struct BeginEpoch {
  static constexpr std::string_view kType = "begin_epoch";
  std::string queue;
  int epoch = 0;
  int number = 0;  ///< Of the question. A later one takes the place of an earlier one.
};

struct Exit {
  static constexpr std::string_view kType = "exit";
};

/// Bad input, in words for the one who set them, when nodes would count as lost between two
/// heartbeats.
Status CheckHeartbeats(std::chrono::milliseconds interval, std::chrono::milliseconds timeout);

/// Somebody wants the cluster to end, and the driver is to see to it. The driver's own program says
/// so to the coordinator, too, which answers with the same.
struct StopAsked {
  static constexpr std::string_view kType = "stop_asked";
  std::string by;                        ///< For people: "alice@host-a".
  std::chrono::milliseconds timeout{0};  ///< For the programs to return by themselves.
};

using DriverMessage =
    std::variant<StartCluster, EndEpoch, AbandonEpoch, EndJob, AskDrained, BeginEpoch, EndFeed,
                 NodeLeaving, Stop, DriverFailure, Activity, StopAsked, Exit, UnknownMessage>;

// From the coordinator to the driver.

struct Listening {
  static constexpr std::string_view kType = "listening";
  Endpoint endpoint;
};

struct Fatal {
  static constexpr std::string_view kType = "fatal";
  std::string message;
};

struct NodeChanged {
  static constexpr std::string_view kType = "node";
  NodeInfo node;
};

struct ClusterFormed {
  static constexpr std::string_view kType = "formed";
  std::vector<NodeInfo> nodes;
};

struct ClusterFailed {
  static constexpr std::string_view kType = "failed";
  Failure failure;
};

struct MetricsChanged {
  static constexpr std::string_view kType = "metrics";
  std::vector<NodeMetrics> nodes;
  RunProgress progress;
  NodeRates rates = {};  ///< Of `rows` and `feed_bytes`, as those of `progress`.
};

struct NodeFeedTerminated {
  static constexpr std::string_view kType = "feed_terminated";
  int node_id = 0;
};

/// The answer to `ask_drained`. More rows may have come since.
struct EpochDrained {
  static constexpr std::string_view kType = "epoch_drained";
  int number = 0;
};

/// The answer to `begin_epoch`: the nodes that train by now take part in the epoch.
struct EpochBegins {
  static constexpr std::string_view kType = "epoch_begins";
  int number = 0;
};

/// Nodes that train wait for others, or others for them.
struct TrainingWaits {
  static constexpr std::string_view kType = "waiting";
  /// For people; empty: they go on.
  std::string reason;
};

/// A node that is to come in place of a lost one, or late, came to a host that is avoided. The
/// driver has Spark start it on another one.
struct TurnedAway {
  static constexpr std::string_view kType = "turned_away";
  int node_id = 0;
  std::string host;
  std::string reason;  ///< For people.
};

struct Finished {
  static constexpr std::string_view kType = "finished";
};

using CoordinatorEvent =
    std::variant<Listening, Fatal, NodeChanged, ClusterFormed, ClusterFailed, MetricsChanged,
                 NodeFeedTerminated, EpochDrained, EpochBegins, TrainingWaits, TurnedAway,
                 StopAsked, Finished, UnknownMessage>;

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_DRIVER_MESSAGES_H_
