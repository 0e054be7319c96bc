#include "control/messages/agent_messages.h"

#include <cstdint>
#include <limits>

#include "control/messages/parts/generation_messages_json.h"
#include "control/messages/parts/metrics_json.h"
#include "control/messages/parts/shared_messages_json.h"

namespace tfos::control {

template <typename F, DescribedAs<Register> M>
void Describe(F& f, M& m) {
  f.Required("protocol", m.protocol);
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("host", m.host, kName);
  f.Required("address", m.address, kName);
  f.Required("port", m.port, kPort);
  f.Required("tensor_port", m.tensor_port, kPort);
  f.Required("agent_pid", m.agent_pid);
  f.Required("executor_id", m.executor_id, kName);
  f.Required("gpus", m.gpus, kNames);
}

template <typename F, DescribedAs<Heartbeat> M>
void Describe(F& f, M& m) {
  f.Required("metrics", m.metrics);
}

template <typename F, DescribedAs<StartNode> M>
void DescribeOwnPart(F& f, M& m) {
  f.Required("job_name", m.job_name);
  f.Required("task_index", m.task_index);
  f.Required("tensorboard", m.tensorboard);
  f.Optional("joins", m.joins);
}

template <typename F, DescribedAs<StartNode> M>
void DescribeSharedPart(F& f, M& m) {
  f.Required("cluster_spec", m.cluster_spec);
  f.Required("num_workers", m.num_workers);
  f.Required("nodes", m.nodes);
}

template <typename F, DescribedAs<StartNode> M>
void Describe(F& f, M& m) {
  DescribeOwnPart(f, m);
  DescribeSharedPart(f, m);
}

template <typename F, DescribedAs<Refused> M>
void Describe(F& f, M& m) {
  f.Required("message", m.message);
}

template <typename F, DescribedAs<OpenTunnel> M>
void Describe(F& f, M& m) {
  f.Required("number", m.number, JsonRange{0});
}

template <typename F, DescribedAs<Answer> M>
void Describe(F& f, M& m) {
  f.Required("number", m.number, JsonRange{Answer::kUnasked});
  f.Required("text", m.text);
  f.Required("from", m.from, kSize);
  f.Required("next", m.next, kSize);
  f.Required("ended", m.ended);
  f.Optional("refused", m.refused);
}

template <typename F, DescribedAs<Question> M>
void Describe(F& f, M& m) {
  f.Required("number", m.number, JsonRange{0});
  f.Required("about", m.about);
  f.Required("after", m.after, JsonRange{-1, std::numeric_limits<std::int64_t>::max()});
  f.Required("lines", m.lines, JsonRange{0});
  f.Required("wait_ms", m.wait, JsonRange{0});
  f.Optional("by", m.by);
  f.Optional("more", m.more);
}

std::string SerializeStartHead(const StartNode& message) {
  JsonWriter fields;
  DescribeOwnPart(fields, message);
  std::string text = LineOf(StartNode::kType, fields.Take());
  text.back() = ',';  // instead of the closing brace, which the tail brings
  return text;
}

std::string SerializeStartTail(const StartNode& message) {
  JsonWriter fields;
  DescribeSharedPart(fields, message);
  return WriteJsonLine(fields.Take()).substr(1);
}

template Result<AgentMessage> ParseMessage<AgentMessage>(std::string_view);
template Result<AgentCommand> ParseMessage<AgentCommand>(std::string_view);

template std::string SerializeMessage(const Register&);
template std::string SerializeMessage(const Heartbeat&);
template std::string SerializeMessage(const StartNode&);
template std::string SerializeMessage(const Refused&);
template std::string SerializeMessage(const OpenTunnel&);
template std::string SerializeMessage(const Answer&);
template std::string SerializeMessage(const Question&);

}  // namespace tfos::control
