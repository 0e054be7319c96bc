#ifndef TFOS_CONTROL_MESSAGES_AGENT_MESSAGES_H_
#define TFOS_CONTROL_MESSAGES_AGENT_MESSAGES_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "control/messages/parts/generation_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/parts/shared_messages.h"

// What agents and the coordinator tell each other.
//
// Owner and lifetime: values. Threads: plain data. Units: as docs/formats/control-protocol.md says,
// where each field has its name of here.
namespace tfos::control {

// From an agent to the coordinator.

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

/// What a node's agent says to a question of people, and when its node has ended.
struct Answer {
  static constexpr std::string_view kType = "answer";
  /// For `number`: nobody has asked. It is the end of the output of a node that has ended.
  static constexpr int kUnasked = -1;
  int number = kUnasked;
  std::string text;
  /// For output: where the text begins and ends among all bytes that the node has written.
  std::int64_t from = 0;
  std::int64_t next = 0;
  /// The node has ended, and nothing follows.
  bool ended = false;
  /// The text says why there is nothing of what was asked for.
  bool refused = false;
};

using AgentMessage = std::variant<Register, StateReport, Heartbeat, StepReport, GroupReady,
                                  FeedTerminated, FailureMessage, Done, Answer, UnknownMessage>;

// From the coordinator to an agent.

struct StartNode {
  static constexpr std::string_view kType = "start";
  std::string job_name;
  int task_index = 0;
  ClusterSpec cluster_spec;
  /// Nodes that train.
  int num_workers = 0;
  std::vector<NodeInfo> nodes;
  bool tensorboard = false;
  /// The cluster has formed before: the node is a newcomer to those that train.
  bool joins = false;
};

struct Refused {
  static constexpr std::string_view kType = "refused";
  std::string message;
};

/// Asks for one more connection, to the TensorBoard beside the node.
struct OpenTunnel {
  static constexpr std::string_view kType = "tunnel";
  int number = 0;
};

/// Asks for what people want to know of a node. An `Answer` with the same number follows.
struct Question {
  static constexpr std::string_view kType = "question";
  static constexpr std::string_view kOutput = "output";
  static constexpr std::string_view kStacks = "stacks";
  /// The same for those who may only read: in no way that could harm the node. A word of its own,
  /// so that an agent that does not know it takes no stacks at all.
  static constexpr std::string_view kGentleStacks = "gentle_stacks";
  static constexpr std::string_view kProfile = "profile";
  int number = 0;
  std::string about;  ///< One of those.
  /// For output: what follows this position is wanted; -1: the last `lines` lines.
  std::int64_t after = -1;
  int lines = 0;
  /// For output: how long to wait for what is wanted. For a profile: for how long to sample.
  std::chrono::milliseconds wait{0};
  /// For a profile: the one that asks for it, and whether it goes on with it afterwards.
  std::string by;
  bool more = false;
};

using AgentCommand = std::variant<StartNode, EndEpoch, AbandonEpoch, EndJob, StepTickets, Regroup,
                                  FormedGroup, Meet, NoGroup, EndFeed, NodeLeaving, NodeMoved, Stop,
                                  Refused, StandBy, OpenTunnel, Question, UnknownMessage>;

/// `start` in two pieces that follow each other on the wire, so that all nodes of a large cluster
/// share the long one: what is the node's own, and the cluster specification with all nodes.
std::string SerializeStartHead(const StartNode& message);
std::string SerializeStartTail(const StartNode& message);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_AGENT_MESSAGES_H_
