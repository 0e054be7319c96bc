#ifndef TFOS_CONTROL_MESSAGES_PARTS_NODE_INFO_JSON_H_
#define TFOS_CONTROL_MESSAGES_PARTS_NODE_INFO_JSON_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "base/text/json_fields.h"
#include "control/messages/parts/node_info.h"

// The fields of node_info.h as JSON. Only for the sources of messages.

namespace tfos {

template <>
struct JsonValue<control::NodeState> {
  static std::string Read(const Json& json, control::NodeState& value, JsonRange) {
    const auto* const name = json.get_ptr<const std::string*>();
    for (std::size_t i = 0; name != nullptr && i < control::kNodeStates; ++i) {
      const auto state = static_cast<control::NodeState>(i);
      if (*name != control::NodeStateName(state)) continue;
      value = state;
      return {};
    }
    return "must be the name of a node state";
  }
  static Json Write(control::NodeState state) { return control::NodeStateName(state); }
};

/// In the namespace of its struct, where JsonValue looks for it.
template <typename F, DescribedAs<Endpoint> M>
void Describe(F& f, M& m) {
  f.Required("address", m.address);
  f.Required("port", m.port, JsonRange{0, 65535});
}

}  // namespace tfos

namespace tfos::control {

inline constexpr JsonRange kPort = {0, 65535};
inline constexpr JsonRange kNodeId = {0, 999'999};
inline constexpr JsonRange kNodeIdOrNone = {-1, 999'999};
inline constexpr JsonRange kSize = {0, std::numeric_limits<std::int64_t>::max()};

// The most bytes of what an agent says of its node: the coordinator keeps it, and tells others.
// Python has cut texts before, to half as much (docs/formats/control-protocol.md).
inline constexpr JsonRange kName = {0, 256};
inline constexpr JsonRange kNames = {0, 256, 256};
inline constexpr JsonRange kText = {0, 128 << 10};
inline constexpr JsonRange kTraceback = {0, 2 << 20};
inline constexpr JsonRange kLogTail = {0, 8 << 10, 50};

template <typename F, DescribedAs<FeedEndpoint> M>
void Describe(F& f, M& m) {
  f.Required("socket", m.socket, kName);
  f.Required("port", m.port, kPort);
}

template <typename F, DescribedAs<TensorBoardProcess> M>
void Describe(F& f, M& m) {
  f.Required("pid", m.pid);
  f.Required("port", m.port, kPort);
}

template <typename F, DescribedAs<NodeInfo> M>
void Describe(F& f, M& m) {
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("job_name", m.job_name);
  f.Required("task_index", m.task_index);
  f.Optional("rank", m.rank, kNodeIdOrNone);
  f.Required("state", m.state);
  f.Required("detail", m.detail);
  f.Optional("leaving", m.leaving);
  f.Required("since_ms", m.since_ms, kSize);
  f.Required("host", m.host);
  f.Required("address", m.address);
  f.Required("port", m.port, kPort);
  f.Required("tensor_port", m.tensor_port, kPort);
  f.Required("pid", m.pid);
  f.Required("agent_pid", m.agent_pid);
  f.Required("executor_id", m.executor_id);
  f.Required("gpus", m.gpus);
  f.Optional("feed", m.feed);
  f.Optional("tensorboard", m.tensorboard);
  f.Optional("joins", m.joins);
}

template <typename F, DescribedAs<FailureReport> M>
void Describe(F& f, M& m) {
  f.Required("step", m.step, kName);
  f.Required("message", m.message, kText);
  f.Optional("traceback", m.traceback, kTraceback);
  f.Optional("log_tail", m.log_tail, kLogTail);
  f.Optional("lost", m.lost);
}

template <typename F, DescribedAs<Failure> M>
void Describe(F& f, M& m) {
  f.Required("node_id", m.node_id, kNodeIdOrNone);
  f.Required("job_name", m.job_name);
  f.Required("task_index", m.task_index);
  f.Required("host", m.host);
  f.Required("executor_id", m.executor_id);
  Describe(f, m.report);
}

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_NODE_INFO_JSON_H_
