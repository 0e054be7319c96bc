#ifndef TFOS_CONTROL_MESSAGES_NODE_MESSAGES_H_
#define TFOS_CONTROL_MESSAGES_NODE_MESSAGES_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/crypto/secret.h"
#include "control/messages/parts/bootstrap_parts.h"
#include "control/messages/parts/generation_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/parts/shared_messages.h"

// What an agent and its node tell each other.
//
// Owner and lifetime: values. Threads: plain data. Units: as docs/formats/control-protocol.md says,
// where each field has its name of here.
namespace tfos::control {

// From an agent to its node.

/// What opens other nodes, and this one to others.
struct NodeKeys {
  Secret feed;
  Secret tensors;
  Secret parameters;
};

struct NodeBootstrap {
  static constexpr std::string_view kType = "bootstrap";
  std::string cluster_id;
  NodeKeys keys;
  std::string encrypt = "auto";  ///< As `spark.tfos.encrypt` has it.
  int node_id = 0;
  std::string executor_id;
  std::string job_name;
  int task_index = 0;
  ClusterSpec cluster_spec;
  int num_workers = 0;
  bool joins = false;  ///< The cluster had formed before.
  std::vector<NodeInfo> nodes;
  int port = 0;
  int port_fd = -1;
  int tensor_port_fd = -1;
  std::string address;       ///< Where others reach it.
  std::string bind_address;  ///< Of its feed: that, or 0.0.0.0 for all of the host's.
  std::string host;
  std::vector<std::string> gpus;
  double gpu_fraction = 0.0;
  Endpoint coordinator;
  std::chrono::milliseconds heartbeat_interval{1'000};
  RawJson node;
  std::int64_t payload_bytes = 0;
};

/// Asks whether the node's process still runs.
struct Ping {
  static constexpr std::string_view kType = "ping";
};

/// Asks what the threads of the node's program are at.
struct TellStacks {
  static constexpr std::string_view kType = "stacks";
  bool gentle = false;  ///< With Python's lock or not at all.
};

/// Asks where the threads of the node's program spend their time for a while.
struct TakeProfile {
  static constexpr std::string_view kType = "profile";
  std::chrono::milliseconds time{0};
};

using NodeCommand = std::variant<NodeBootstrap, EndEpoch, AbandonEpoch, EndJob, StepTickets,
                                 Regroup, FormedGroup, Meet, NoGroup, EndFeed, NodeLeaving,
                                 NodeMoved, Stop, Ping, TellStacks, TakeProfile, UnknownMessage>;

// From a node to its agent.

struct MetricsReport {
  static constexpr std::string_view kType = "metrics";
  ReportedMetrics metrics;
};

/// It does, and answers each `ping` from now on. A node that never says so is never asked.
struct Pong {
  static constexpr std::string_view kType = "pong";
};

/// The stacks of all threads, for people; empty where the node runs no Python.
struct Stacks {
  static constexpr std::string_view kType = "stacks";
  std::string text;
  bool gentle = false;  ///< As they were asked for.
};

/// What was asked for with `TakeProfile`.
struct Profile {
  static constexpr std::string_view kType = "profile";
  std::string text;     ///< A StackProfile (base/profile), or why there is none.
  bool failed = false;  ///< There is none.
};

using NodeMessage = std::variant<StateReport, MetricsReport, StepReport, GroupReady, FeedTerminated,
                                 FailureMessage, Done, Pong, Stacks, Profile, UnknownMessage>;

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_NODE_MESSAGES_H_
