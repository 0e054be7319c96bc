#ifndef TFOS_CONTROL_MESSAGES_LAUNCH_MESSAGES_H_
#define TFOS_CONTROL_MESSAGES_LAUNCH_MESSAGES_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/crypto/secret.h"
#include "control/messages/parts/bootstrap_parts.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/parts/shared_messages.h"

// What a launch task and its agent tell each other.
//
// Owner and lifetime: values. Threads: plain data. Units: as docs/formats/control-protocol.md says,
// where each field has its name of here.
namespace tfos::control {

// From a launch task to its agent.

struct GpuRequest {
  /// Those that Spark gave to the launch task.
  std::vector<std::string> assigned;
  int count = 0;
  double fraction = 0.0;
  /// Those that Spark gave to the task's executor, as far as they are known.
  std::vector<std::string> of_executor = {};
  /// The assigned ones are used even if other nodes have them.
  bool may_share = false;
};

/// What the agent and its node need, never the cluster's token.
struct LaunchKeys {
  Secret join;
  Secret feed;
  Secret tensors;
  Secret parameters;
};

struct AgentBootstrap {
  static constexpr std::string_view kType = "bootstrap";
  int protocol = kProtocolVersion;
  std::string cluster_id;
  LaunchKeys keys;
  std::string encrypt = "auto";  ///< As `spark.tfos.encrypt` has it.
  Endpoint coordinator;
  int node_id = 0;
  std::string executor_id;
  /// The process that the node must not outlive; 0: none, -1: the executor above the caller.
  std::int64_t watch_pid = 0;
  std::vector<std::string> python;
  std::string cwd;
  /// All of the node's, each as `NAME=value`. As `python`, `cwd` and `tensorboard` bytes, not text.
  std::vector<std::string> environment;
  std::string advertised_address;  ///< Empty: the one from which it reaches the coordinator.
  std::string bind_address;        ///< Of its feed and tensors. Empty: the advertised one.
  std::string ports;
  GpuRequest gpus;
  std::string log_level;
  RawJson node;
  /// An open file that the agent has inherited, for what the program returns; -1: none. The node
  /// inherits it under the same number.
  int result_fd = -1;
  std::vector<std::string> tensorboard;
  std::chrono::milliseconds registration_timeout{600'000};
  std::chrono::milliseconds heartbeat_interval{1'000};
  std::chrono::milliseconds heartbeat_timeout{10'000};
  /// How long the node may leave its agent's pings unanswered; zero: for ever.
  std::chrono::milliseconds answer_timeout{30'000};
  std::int64_t payload_bytes = 0;
};

struct Detach {
  static constexpr std::string_view kType = "detach";
};

using LaunchMessage = std::variant<AgentBootstrap, Detach, UnknownMessage>;

// From an agent to its launch task.

struct NodesFormed {
  static constexpr std::string_view kType = "formed";
};

using LaunchEvent = std::variant<StateReport, NodesFormed, StandBy, FailureMessage, UnknownMessage>;

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_LAUNCH_MESSAGES_H_
