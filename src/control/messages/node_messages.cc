#include "control/messages/node_messages.h"

#include "control/messages/parts/bootstrap_parts_json.h"
#include "control/messages/parts/generation_messages_json.h"
#include "control/messages/parts/metrics_json.h"
#include "control/messages/parts/shared_messages_json.h"

namespace tfos::control {

template <typename F, DescribedAs<NodeKeys> M>
void Describe(F& f, M& m) {
  f.Required("feed", m.feed);
  f.Required("tensors", m.tensors);
  f.Required("parameters", m.parameters);
}

template <typename F, DescribedAs<NodeBootstrap> M>
void Describe(F& f, M& m) {
  f.Required("cluster_id", m.cluster_id);
  f.Required("keys", m.keys);
  f.Required("encrypt", m.encrypt);
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("executor_id", m.executor_id);
  f.Required("job_name", m.job_name);
  f.Required("task_index", m.task_index);
  f.Required("cluster_spec", m.cluster_spec);
  f.Required("num_workers", m.num_workers);
  f.Optional("joins", m.joins);
  f.Required("nodes", m.nodes);
  f.Required("port", m.port, kPort);
  f.Required("port_fd", m.port_fd, JsonRange{-1});
  f.Required("tensor_port_fd", m.tensor_port_fd, JsonRange{-1});
  f.Required("address", m.address);
  f.Required("bind_address", m.bind_address);
  f.Required("host", m.host);
  f.Required("gpus", m.gpus);
  f.Required("gpu_fraction", m.gpu_fraction);
  f.Required("coordinator", m.coordinator);
  f.Optional("heartbeat_interval_ms", m.heartbeat_interval, JsonRange{1});
  f.Required("node", m.node);
  f.Required("payload_bytes", m.payload_bytes, kSize);
}

template <typename F, DescribedAs<MetricsReport> M>
void Describe(F& f, M& m) {
  f.Required("metrics", m.metrics);
}

template <typename F, DescribedAs<TellStacks> M>
void Describe(F& f, M& m) {
  f.Optional("gentle", m.gentle);
}

template <typename F, DescribedAs<Stacks> M>
void Describe(F& f, M& m) {
  f.Required("text", m.text);
  f.Optional("gentle", m.gentle);
}

template <typename F, DescribedAs<TakeProfile> M>
void Describe(F& f, M& m) {
  f.Required("time_ms", m.time, JsonRange{0});
}

template <typename F, DescribedAs<Profile> M>
void Describe(F& f, M& m) {
  f.Required("text", m.text);
  f.Required("failed", m.failed);
}

template Result<NodeCommand> ParseMessage<NodeCommand>(std::string_view);
template Result<NodeMessage> ParseMessage<NodeMessage>(std::string_view);

template std::string SerializeMessage(const NodeBootstrap&);
template std::string SerializeMessage(const MetricsReport&);
template std::string SerializeMessage(const Ping&);
template std::string SerializeMessage(const Pong&);
template std::string SerializeMessage(const TellStacks&);
template std::string SerializeMessage(const Stacks&);
template std::string SerializeMessage(const TakeProfile&);
template std::string SerializeMessage(const Profile&);

}  // namespace tfos::control
