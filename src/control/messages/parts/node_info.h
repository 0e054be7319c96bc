#ifndef TFOS_CONTROL_MESSAGES_PARTS_NODE_INFO_H_
#define TFOS_CONTROL_MESSAGES_PARTS_NODE_INFO_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/endpoint.h"

// What several messages say of a node.
//
// Owner and lifetime: values. Threads: plain data. Units: as docs/formats/control-protocol.md says,
// where each field has its name of here.
namespace tfos::control {

enum class NodeState {
  kExpected,
  kStarting,
  kRegistered,
  kRunning,
  kDraining,
  kDone,
  kFailed,
  kLost,
  kStopped,
};
inline constexpr std::size_t kNodeStates = 9;

/// The state as the protocol writes it, for example "running".
std::string_view NodeStateName(NodeState state);
/// Whether a node in `state` stays in it for ever.
constexpr bool IsFinal(NodeState state) { return state >= NodeState::kDone; }

/// Job name to the `host:port` of its tasks.
using ClusterSpec = std::map<std::string, std::vector<std::string>>;

using tfos::Endpoint;

struct FeedEndpoint {
  std::string socket;
  int port = 0;

  friend bool operator==(const FeedEndpoint&, const FeedEndpoint&) = default;
};

struct TensorBoardProcess {
  std::int64_t pid = 0;
  int port = 0;

  friend bool operator==(const TensorBoardProcess&, const TensorBoardProcess&) = default;
};

/// NODE: a node as everybody else sees it.
struct NodeInfo {
  int node_id = 0;
  std::string job_name;
  int task_index = 0;
  int rank = -1;  ///< Among the nodes that train, for the cluster's life; -1: it does not train.
  NodeState state = NodeState::kExpected;
  std::string detail;
  /// Why Spark is about to take its executor away; empty as long as it is not.
  std::string leaving;
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
  bool joins = false;  ///< It has come late, and the others have not let it in yet.
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

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_NODE_INFO_H_
