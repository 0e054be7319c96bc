#ifndef TFOS_CONTROL_MESSAGES_MESSAGES_H_
#define TFOS_CONTROL_MESSAGES_MESSAGES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/crypto/secret.h"
#include "tfos/status.h"

// The messages of docs/formats/control-protocol.md as types, each field under its name there.
//
// Owner and lifetime: values. Threads: plain data. Units: as the protocol page says.
// Errors: parsing never throws; a message that is not JSON, lacks a field or has one of a wrong
// type is kBadInput and the text names the field, never a secret.
namespace tfos::control {

inline constexpr int kProtocolVersion = 1;

/// The longest control message, in bytes.
inline constexpr std::size_t kMaxMessageBytes = 4u << 20;

enum class NodeState {
  kExpected,
  kStarting,
  kRegistered,
  kRunning,
  kDraining,
  kDone,
  kFailed,
  kLost,
};
inline constexpr std::size_t kNodeStates = 8;

/// The state as the protocol writes it, for example "running".
std::string_view NodeStateName(NodeState state);
/// Whether a node in `state` stays in it for ever.
constexpr bool IsFinal(NodeState state) { return state >= NodeState::kDone; }

/// A JSON object that is handed on as it is.
struct RawJson {
  std::string text = "{}";
};

using MetricValue = std::variant<std::int64_t, double, std::string>;
using Metrics = std::map<std::string, MetricValue>;

/// Metrics as a program said them: those that can't be carried are dropped and named in words,
/// since a number that nobody can read is no reason to end a node.
struct ReportedMetrics {
  Metrics kept;
  std::vector<std::string> dropped = {};
};

/// Job name to the `host:port` of its tasks.
using ClusterSpec = std::map<std::string, std::vector<std::string>>;

// ---- Parts of messages

struct RoleCount {
  std::string job;
  int count = 0;
};

struct Endpoint {
  std::string address;
  int port = 0;
};

struct FeedEndpoint {
  std::string socket;
  int port = 0;

  friend bool operator==(const FeedEndpoint&, const FeedEndpoint&) = default;
};

struct TensorBoardProcess {
  std::int64_t pid = 0;
  int port = 0;
};

/// NODE: a node as everybody else sees it.
struct NodeInfo {
  int node_id = 0;
  std::string job_name;
  int task_index = 0;
  NodeState state = NodeState::kExpected;
  std::string detail;
  std::chrono::milliseconds since_ms{0};
  std::string host;
  std::string address;
  int port = 0;
  int tensor_port = 0;  ///< Where it takes part in collective operations.
  std::int64_t pid = 0;
  std::int64_t agent_pid = 0;
  std::string executor_id;
  std::vector<std::string> gpus;
  std::optional<FeedEndpoint> feed;
  std::optional<TensorBoardProcess> tensorboard;
};

/// What went wrong, as the one who saw it says it.
struct FailureReport {
  std::string step;
  std::string message;
  std::string traceback;
  std::vector<std::string> log_tail;
  /// The node or what it needs was killed or has died: its program is not to blame.
  bool lost = false;
};

/// FAILURE: a report, and whose failure it is. `node_id` -1: of no node.
struct Failure {
  int node_id = -1;
  std::string job_name;
  int task_index = 0;
  std::string host;
  std::string executor_id;
  FailureReport report;
};

struct NodeMetrics {
  int node_id = 0;
  Metrics metrics;
};

struct GpuRequest {
  std::vector<std::string> assigned;
  int count = 0;
  double fraction = 0.0;
};

// ---- Messages of several links

struct EndFeed {
  static constexpr std::string_view kType = "end_feed";
};

/// Every row of this epoch of a queue, counted through the cluster's life, has been fed.
struct EndEpoch {
  static constexpr std::string_view kType = "end_epoch";
  std::string queue;
  int epoch = 0;
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
};

/// Rows of an epoch that one node passes on to another one, so that both end it with as many.
struct RowPass {
  int from = 0;
  int to = 0;
  std::int64_t rows = 0;
  /// Of the one that gets them; the coordinator's roster has it.
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
  /// It will not grow: a node with no more full batches has got all its rows.
  bool final = false;
  /// The most batches that a node makes, as far as that is known.
  std::int64_t longest = 0;
  /// All nodes have got all their rows: it will not grow either.
  bool closed = false;
  /// A node has got all its rows: what the others have got is all, too.
  bool ending = false;
  /// What `granted` and `longest` count on once all have ended.
  std::vector<RowPass> passes;
  /// Nodes that have not reported yet, for people.
  std::vector<std::string> missing;

  friend bool operator==(const StepTickets&, const StepTickets&) = default;
};

struct Stop {
  static constexpr std::string_view kType = "stop";
  std::string reason;
  std::chrono::milliseconds grace{0};
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

/// A message of a type that this version doesn't know. Not an error: ignore it.
struct UnknownMessage {
  std::string type;
};

// ---- Driver to coordinator

struct StartCluster {
  static constexpr std::string_view kType = "start";
  int protocol = kProtocolVersion;
  std::string cluster_id;
  Secret token;
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
  /// Nodes that may be lost without ending the cluster.
  int max_lost_nodes = 0;
  std::string log_level;
};

struct DriverFailure {
  static constexpr std::string_view kType = "fail";
  int node_id = -1;
  FailureReport report;
};

struct Exit {
  static constexpr std::string_view kType = "exit";
};

/// Bad input, in words for whoever set them, when nodes would count as lost between two heartbeats.
Status CheckHeartbeats(std::chrono::milliseconds interval, std::chrono::milliseconds timeout);

using DriverMessage =
    std::variant<StartCluster, EndEpoch, EndFeed, Stop, DriverFailure, Exit, UnknownMessage>;

// ---- Coordinator to driver

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
};

struct NodeFeedTerminated {
  static constexpr std::string_view kType = "feed_terminated";
  int node_id = 0;
};

struct Finished {
  static constexpr std::string_view kType = "finished";
};

using CoordinatorEvent = std::variant<Listening, Fatal, NodeChanged, ClusterFormed, ClusterFailed,
                                      MetricsChanged, NodeFeedTerminated, Finished, UnknownMessage>;

// ---- Agent to coordinator

struct Register {
  static constexpr std::string_view kType = "register";
  int protocol = kProtocolVersion;
  int node_id = 0;
  std::string host;
  std::string address;
  int port = 0;
  int tensor_port = 0;
  std::int64_t agent_pid = 0;
  std::string executor_id;
  std::vector<std::string> gpus;
};

struct Heartbeat {
  static constexpr std::string_view kType = "heartbeat";
  Metrics metrics;
};

using AgentMessage = std::variant<Register, StateReport, Heartbeat, StepReport, FeedTerminated,
                                  FailureMessage, Done, UnknownMessage>;

// ---- Coordinator to agent

struct StartNode {
  static constexpr std::string_view kType = "start";
  std::string job_name;
  int task_index = 0;
  ClusterSpec cluster_spec;
  /// Nodes that train.
  int num_workers = 0;
  std::vector<NodeInfo> nodes;
  bool tensorboard = false;
};

struct Refused {
  static constexpr std::string_view kType = "refused";
  std::string message;
};

using AgentCommand =
    std::variant<StartNode, EndEpoch, StepTickets, EndFeed, Stop, Refused, UnknownMessage>;

// ---- Launch task to agent

struct AgentBootstrap {
  static constexpr std::string_view kType = "bootstrap";
  int protocol = kProtocolVersion;
  std::string cluster_id;
  Secret token;
  Endpoint coordinator;
  int node_id = 0;
  std::string executor_id;
  /// The process that the node must not outlive; 0: none, -1: the executor above the caller.
  std::int64_t watch_pid = 0;
  std::vector<std::string> python;
  std::string cwd;
  /// All of the node's, each as `NAME=value`. As `python`, `cwd` and `tensorboard` bytes, not text.
  std::vector<std::string> environment;
  std::string advertised_address;
  std::string ports;
  GpuRequest gpus;
  std::string log_level;
  RawJson node;
  std::vector<std::string> tensorboard;
  std::chrono::milliseconds registration_timeout{600'000};
  std::chrono::milliseconds heartbeat_interval{1'000};
  std::chrono::milliseconds heartbeat_timeout{10'000};
  std::int64_t payload_bytes = 0;
};

struct Detach {
  static constexpr std::string_view kType = "detach";
};

using LaunchMessage = std::variant<AgentBootstrap, Detach, UnknownMessage>;

// ---- Agent to launch task

struct NodesFormed {
  static constexpr std::string_view kType = "formed";
};

using LaunchEvent = std::variant<StateReport, NodesFormed, FailureMessage, UnknownMessage>;

// ---- Agent to node

struct NodeBootstrap {
  static constexpr std::string_view kType = "bootstrap";
  std::string cluster_id;
  Secret token;
  int node_id = 0;
  std::string executor_id;
  std::string job_name;
  int task_index = 0;
  ClusterSpec cluster_spec;
  int num_workers = 0;
  std::vector<NodeInfo> nodes;
  int port = 0;
  int port_fd = -1;
  int tensor_port_fd = -1;
  std::string address;
  std::string host;
  std::vector<std::string> gpus;
  double gpu_fraction = 0.0;
  Endpoint coordinator;
  std::chrono::milliseconds heartbeat_interval{1'000};
  RawJson node;
  std::int64_t payload_bytes = 0;
};

using NodeCommand =
    std::variant<NodeBootstrap, EndEpoch, StepTickets, EndFeed, Stop, UnknownMessage>;

// ---- Node to agent

struct MetricsReport {
  static constexpr std::string_view kType = "metrics";
  ReportedMetrics metrics;
};

using NodeMessage = std::variant<StateReport, MetricsReport, StepReport, FeedTerminated,
                                 FailureMessage, Done, UnknownMessage>;

// ---- HTTP answers

struct ClusterStatus {
  std::string cluster_id;
  std::vector<NodeInfo> nodes;
  /// By node id, written as text.
  std::map<std::string, Metrics> metrics;
  std::optional<Failure> failure;
};

std::string SerializeStatus(const ClusterStatus& status);
std::string SerializeFailure(const Failure& failure);

/// Reads one message of the link whose messages `Message` (one of the variants above) lists.
///   UnknownMessage  a well-formed message of another type
///   kBadInput       anything else, too long (kMaxMessageBytes) or too deep ones included
template <typename Message>
Result<Message> ParseMessage(std::string_view text);

/// Whether `text` is a JSON object. A message that is one and yet can't be read comes from a
/// program or another version; anything else is a broken link.
bool IsJsonObject(std::string_view text);

/// The message as one line of JSON, without a line feed. Text that is not UTF-8 is repaired.
template <typename Message>
std::string SerializeMessage(const Message& message);

/// `start` in two pieces that follow each other on the wire, so that all nodes of a large cluster
/// share the long one: what is the node's own, and the cluster specification with all nodes.
std::string SerializeStartHead(const StartNode& message);
std::string SerializeStartTail(const StartNode& message);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_MESSAGES_H_
