#include "control/messages/launch_messages.h"

#include "control/messages/parts/bootstrap_parts_json.h"
#include "control/messages/parts/shared_messages_json.h"

namespace tfos::control {

template <typename F, DescribedAs<GpuRequest> M>
void Describe(F& f, M& m) {
  f.Required("assigned", m.assigned);
  f.Required("count", m.count);
  f.Required("fraction", m.fraction);
  f.Optional("of_executor", m.of_executor);
  f.Optional("may_share", m.may_share);
}

template <typename F, DescribedAs<LaunchKeys> M>
void Describe(F& f, M& m) {
  f.Required("join", m.join);
  f.Required("feed", m.feed);
  f.Required("tensors", m.tensors);
  f.Required("parameters", m.parameters);
}

template <typename F, DescribedAs<AgentBootstrap> M>
void Describe(F& f, M& m) {
  f.Required("protocol", m.protocol);
  f.Required("cluster_id", m.cluster_id);
  f.Required("keys", m.keys);
  f.Required("encrypt", m.encrypt);
  f.Required("coordinator", m.coordinator);
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("executor_id", m.executor_id);
  f.Required("watch_pid", m.watch_pid, JsonRange{-1});
  f.RequiredBytes("python", m.python);
  f.RequiredBytes("cwd", m.cwd);
  f.RequiredBytes("environment", m.environment);
  f.Required("advertised_address", m.advertised_address);
  f.Required("bind_address", m.bind_address);
  f.Required("ports", m.ports);
  f.Required("gpus", m.gpus);
  f.Required("log_level", m.log_level);
  f.Required("node", m.node);
  f.Optional("result_fd", m.result_fd, JsonRange{-1});
  f.RequiredBytes("tensorboard", m.tensorboard);
  f.Required("registration_timeout_ms", m.registration_timeout);
  f.Required("heartbeat_interval_ms", m.heartbeat_interval, JsonRange{1});
  f.Required("heartbeat_timeout_ms", m.heartbeat_timeout, JsonRange{1});
  f.Optional("answer_timeout_ms", m.answer_timeout, JsonRange{0});
  f.Required("payload_bytes", m.payload_bytes, kSize);
}

template Result<LaunchMessage> ParseMessage<LaunchMessage>(std::string_view);
template Result<LaunchEvent> ParseMessage<LaunchEvent>(std::string_view);

template std::string SerializeMessage(const AgentBootstrap&);
template std::string SerializeMessage(const Detach&);
template std::string SerializeMessage(const NodesFormed&);

}  // namespace tfos::control
