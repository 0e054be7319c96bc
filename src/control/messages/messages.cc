#include "control/messages/messages.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/format.h"
#include "base/text/json_fields.h"

namespace tfos::control {
namespace {

constexpr std::array<std::string_view, kNodeStates> kStateNames = {
    "expected", "starting", "registered", "running", "draining", "done", "failed", "lost"};

constexpr std::string_view kTheMessage = "the message";
constexpr std::size_t kMaxMetrics = 256;      // in one message
constexpr std::size_t kMaxMetricBytes = 256;  // of a name or a string value
constexpr std::size_t kShownNameBytes = 40;   // of a metric's name that is wrong
constexpr auto kMostInt64 = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

constexpr JsonRange kPort = {0, 65535};
constexpr JsonRange kNodeId = {0, 999'999};
constexpr JsonRange kEpoch = {0, std::numeric_limits<int>::max()};
constexpr JsonRange kNodeIdOrNone = {-1, 999'999};
constexpr JsonRange kSize = {0, std::numeric_limits<std::int64_t>::max()};

}  // namespace

// Each message's fields are listed once, for reading and writing alike: `M` is `T` or `const T`.
template <typename M, typename T>
concept Is = DescribedAs<M, T>;

// Messages that are only their type.
template <typename M>
concept Empty = std::is_empty_v<M>;

template <typename F, Empty M>
void Describe(F&, M&) {}

template <typename F, Is<RoleCount> M>
void Describe(F& f, M& m) {
  f.Required("job", m.job);
  f.Required("count", m.count, JsonRange{1, 1'000'000});
}

template <typename F, Is<FeedEndpoint> M>
void Describe(F& f, M& m) {
  f.Required("socket", m.socket);
  f.Required("port", m.port, kPort);
}

template <typename F, Is<TensorBoardProcess> M>
void Describe(F& f, M& m) {
  f.Required("pid", m.pid);
  f.Required("port", m.port, kPort);
}

template <typename F, Is<Endpoint> M>
void Describe(F& f, M& m) {
  f.Required("address", m.address);
  f.Required("port", m.port, kPort);
}

template <typename F, Is<NodeInfo> M>
void Describe(F& f, M& m) {
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("job_name", m.job_name);
  f.Required("task_index", m.task_index);
  f.Required("state", m.state);
  f.Required("detail", m.detail);
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
}

template <typename F, Is<FailureReport> M>
void Describe(F& f, M& m) {
  f.Required("step", m.step);
  f.Required("message", m.message);
  f.Optional("traceback", m.traceback);
  f.Optional("log_tail", m.log_tail);
  f.Optional("lost", m.lost);
}

template <typename F, Is<Failure> M>
void Describe(F& f, M& m) {
  f.Required("node_id", m.node_id, kNodeIdOrNone);
  f.Required("job_name", m.job_name);
  f.Required("task_index", m.task_index);
  f.Required("host", m.host);
  f.Required("executor_id", m.executor_id);
  Describe(f, m.report);
}

template <typename F, Is<NodeMetrics> M>
void Describe(F& f, M& m) {
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("metrics", m.metrics);
}

template <typename F, Is<GpuRequest> M>
void Describe(F& f, M& m) {
  f.Required("assigned", m.assigned);
  f.Required("count", m.count);
  f.Required("fraction", m.fraction);
}

template <typename F, Is<EndEpoch> M>
void Describe(F& f, M& m) {
  f.Required("queue", m.queue);
  f.Required("epoch", m.epoch, kEpoch);
}

template <typename F, Is<StepReport> M>
void Describe(F& f, M& m) {
  f.Required("queue", m.queue);
  f.Required("epoch", m.epoch, kEpoch);
  f.Required("full_batches", m.full_batches, kSize);
  f.Required("ended", m.ended);
  f.Required("batches", m.batches, kSize);
  f.Required("rows", m.rows, kSize);
  f.Required("passable_rows", m.passable_rows, kSize);
  f.Required("batch_rows", m.batch_rows, kSize);
}

template <typename F, Is<RowPass> M>
void Describe(F& f, M& m) {
  f.Required("from", m.from, kNodeId);
  f.Required("to", m.to, kNodeId);
  f.Required("rows", m.rows, kSize);
  f.Required("address", m.address);
  f.Required("feed", m.feed);
}

template <typename F, Is<StepTickets> M>
void Describe(F& f, M& m) {
  f.Required("queue", m.queue);
  f.Required("epoch", m.epoch, kEpoch);
  f.Required("granted", m.granted, kSize);
  f.Required("final", m.final);
  f.Required("longest", m.longest, kSize);
  f.Required("closed", m.closed);
  f.Required("ending", m.ending);
  f.Required("passes", m.passes);
  f.Required("missing", m.missing);
}

template <typename F, Is<Stop> M>
void Describe(F& f, M& m) {
  f.Required("reason", m.reason);
  f.Optional("grace_ms", m.grace);
}

template <typename F, Is<StateReport> M>
void Describe(F& f, M& m) {
  f.Required("state", m.state);
  f.Optional("detail", m.detail);
  f.Optional("pid", m.pid);
  f.Optional("feed", m.feed);
  f.Optional("tensorboard", m.tensorboard);
}

template <typename F, Is<FailureMessage> M>
void Describe(F& f, M& m) {
  f.Required("failure", m.failure);
}

template <typename F, Is<StartCluster> M>
void Describe(F& f, M& m) {
  f.Required("protocol", m.protocol);
  f.Required("cluster_id", m.cluster_id);
  f.Required("token", m.token);
  f.Required("bind_address", m.bind_address);
  f.Required("advertised_address", m.advertised_address);
  f.Required("ports", m.ports);
  f.Required("roles", m.roles);
  f.Required("service_jobs", m.service_jobs);
  f.Optional("tensorboard_node", m.tensorboard_node, kNodeIdOrNone);
  f.Required("registration_timeout_ms", m.registration_timeout);
  f.Required("start_timeout_ms", m.start_timeout, JsonRange{1});
  f.Required("heartbeat_interval_ms", m.heartbeat_interval, JsonRange{1});
  f.Required("heartbeat_timeout_ms", m.heartbeat_timeout, JsonRange{1});
  f.Optional("max_lost_nodes", m.max_lost_nodes);
  f.Required("log_level", m.log_level);
}

template <typename F, Is<DriverFailure> M>
void Describe(F& f, M& m) {
  f.Required("node", m.node_id, kNodeIdOrNone);
  Describe(f, m.report);
}

template <typename F, Is<Listening> M>
void Describe(F& f, M& m) {
  Describe(f, m.endpoint);
}

template <typename F, Is<Fatal> M>
void Describe(F& f, M& m) {
  f.Required("message", m.message);
}

template <typename F, Is<NodeChanged> M>
void Describe(F& f, M& m) {
  f.Required("node", m.node);
}

template <typename F, Is<ClusterFormed> M>
void Describe(F& f, M& m) {
  f.Required("nodes", m.nodes);
}

template <typename F, Is<ClusterFailed> M>
void Describe(F& f, M& m) {
  f.Required("failure", m.failure);
}

template <typename F, Is<MetricsChanged> M>
void Describe(F& f, M& m) {
  f.Required("nodes", m.nodes);
}

template <typename F, Is<NodeFeedTerminated> M>
void Describe(F& f, M& m) {
  f.Required("node_id", m.node_id, kNodeId);
}

template <typename F, Is<Register> M>
void Describe(F& f, M& m) {
  f.Required("protocol", m.protocol);
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("host", m.host);
  f.Required("address", m.address);
  f.Required("port", m.port, kPort);
  f.Required("tensor_port", m.tensor_port, kPort);
  f.Required("agent_pid", m.agent_pid);
  f.Required("executor_id", m.executor_id);
  f.Required("gpus", m.gpus);
}

template <typename F, Is<Heartbeat> M>
void Describe(F& f, M& m) {
  f.Required("metrics", m.metrics);
}

template <typename F, Is<StartNode> M>
void DescribeOwnPart(F& f, M& m) {
  f.Required("job_name", m.job_name);
  f.Required("task_index", m.task_index);
  f.Required("tensorboard", m.tensorboard);
}

template <typename F, Is<StartNode> M>
void DescribeSharedPart(F& f, M& m) {
  f.Required("cluster_spec", m.cluster_spec);
  f.Required("num_workers", m.num_workers);
  f.Required("nodes", m.nodes);
}

template <typename F, Is<StartNode> M>
void Describe(F& f, M& m) {
  DescribeOwnPart(f, m);
  DescribeSharedPart(f, m);
}

template <typename F, Is<Refused> M>
void Describe(F& f, M& m) {
  f.Required("message", m.message);
}

template <typename F, Is<AgentBootstrap> M>
void Describe(F& f, M& m) {
  f.Required("protocol", m.protocol);
  f.Required("cluster_id", m.cluster_id);
  f.Required("token", m.token);
  f.Required("coordinator", m.coordinator);
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("executor_id", m.executor_id);
  f.Required("watch_pid", m.watch_pid, JsonRange{-1});
  f.RequiredBytes("python", m.python);
  f.RequiredBytes("cwd", m.cwd);
  f.RequiredBytes("environment", m.environment);
  f.Required("advertised_address", m.advertised_address);
  f.Required("ports", m.ports);
  f.Required("gpus", m.gpus);
  f.Required("log_level", m.log_level);
  f.Required("node", m.node);
  f.RequiredBytes("tensorboard", m.tensorboard);
  f.Required("registration_timeout_ms", m.registration_timeout);
  f.Required("heartbeat_interval_ms", m.heartbeat_interval, JsonRange{1});
  f.Required("heartbeat_timeout_ms", m.heartbeat_timeout, JsonRange{1});
  f.Required("payload_bytes", m.payload_bytes, kSize);
}

template <typename F, Is<NodeBootstrap> M>
void Describe(F& f, M& m) {
  f.Required("cluster_id", m.cluster_id);
  f.Required("token", m.token);
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("executor_id", m.executor_id);
  f.Required("job_name", m.job_name);
  f.Required("task_index", m.task_index);
  f.Required("cluster_spec", m.cluster_spec);
  f.Required("num_workers", m.num_workers);
  f.Required("nodes", m.nodes);
  f.Required("port", m.port, kPort);
  f.Required("port_fd", m.port_fd, JsonRange{-1});
  f.Required("tensor_port_fd", m.tensor_port_fd, JsonRange{-1});
  f.Required("address", m.address);
  f.Required("host", m.host);
  f.Required("gpus", m.gpus);
  f.Required("gpu_fraction", m.gpu_fraction);
  f.Required("coordinator", m.coordinator);
  f.Optional("heartbeat_interval_ms", m.heartbeat_interval, JsonRange{1});
  f.Required("node", m.node);
  f.Required("payload_bytes", m.payload_bytes, kSize);
}

template <typename F, Is<MetricsReport> M>
void Describe(F& f, M& m) {
  f.Required("metrics", m.metrics);
}

template <typename F, Is<ClusterStatus> M>
void Describe(F& f, M& m) {
  f.Required("cluster_id", m.cluster_id);
  f.Required("nodes", m.nodes);
  f.Required("metrics", m.metrics);
  f.Optional("failure", m.failure);
}

}  // namespace tfos::control

namespace tfos {

// The values of the protocol that are no objects.

template <>
struct JsonValue<control::NodeState> {
  static std::string Read(const Json& json, control::NodeState& value, JsonRange) {
    const auto* const name = json.get_ptr<const std::string*>();
    const auto known = name == nullptr ? control::kStateNames.end()
                                       : std::ranges::find(control::kStateNames, *name);
    if (known == control::kStateNames.end()) return "must be the name of a node state";
    value = static_cast<control::NodeState>(known - control::kStateNames.begin());
    return {};
  }
  static Json Write(control::NodeState state) { return control::NodeStateName(state); }
};

template <>
struct JsonValue<Secret> {
  static std::string Read(const Json& json, Secret& value, JsonRange) {
    if (json.is_string()) {
      if (auto secret = Secret::FromHex(json.get_ref<const std::string&>()); secret.ok()) {
        value = *secret;
        return {};
      }
    }
    return "must be 64 hexadecimal digits";
  }
  static Json Write(const Secret& secret) { return secret.ToHex(); }
};

template <>
struct JsonValue<control::RawJson> {
  static std::string Read(const Json& json, control::RawJson& value, JsonRange) {
    if (!json.is_object()) return "must be an object";
    value.text = json.dump();
    return {};
  }
  static Json Write(const control::RawJson& raw) { return Json::parse(raw.text, nullptr, false); }
};

template <>
struct JsonValue<control::MetricValue> {
  static std::string Read(const Json& json, control::MetricValue& value, JsonRange range) {
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > control::kMostInt64) {
      value = static_cast<double>(json.get<std::uint64_t>());
      return {};
    }
    if (json.is_number_float()) {
      return JsonValue<double>::Read(json, value.emplace<double>(), range);
    }
    if (json.is_number()) {
      return JsonValue<std::int64_t>::Read(json, value.emplace<std::int64_t>(), kAnyInteger);
    }
    if (json.is_string() && json.get_ref<const std::string&>().size() <= control::kMaxMetricBytes) {
      return JsonValue<std::string>::Read(json, value.emplace<std::string>(), range);
    }
    return fmt::format("must be a number or a string of at most {} bytes",
                       control::kMaxMetricBytes);
  }
  static Json Write(const control::MetricValue& metric) {
    return std::visit([](const auto& value) { return Json(value); }, metric);
  }
};

template <>
struct JsonValue<control::ReportedMetrics> {
  static std::string Read(const Json& json, control::ReportedMetrics& value, JsonRange range) {
    if (!json.is_object()) return "must be an object";
    for (const auto& [name, metric] : json.items()) {
      if (metric.is_null()) continue;  // how a number that is not finite is written
      control::MetricValue taken;
      std::string problem;
      if (name.empty() || name.size() > control::kMaxMetricBytes) {
        problem = fmt::format("must have a name of 1 to {} bytes", control::kMaxMetricBytes);
      } else if (value.kept.size() == control::kMaxMetrics) {
        problem = fmt::format("comes after {} others, the most that a node reports",
                              control::kMaxMetrics);
      } else {
        problem = JsonValue<control::MetricValue>::Read(metric, taken, range);
      }
      if (problem.empty()) {
        value.kept.emplace(name, std::move(taken));
      } else {
        value.dropped.push_back(
            fmt::format("metric '{}' {}", name.substr(0, control::kShownNameBytes), problem));
      }
    }
    return {};
  }
  static Json Write(const control::ReportedMetrics& metrics);
};

/// From an agent of ours, which has dropped what a program got wrong.
template <>
struct JsonValue<control::Metrics> {
  static std::string Read(const Json& json, control::Metrics& value, JsonRange range) {
    control::ReportedMetrics reported;
    std::string problem = JsonValue<control::ReportedMetrics>::Read(json, reported, range);
    if (!problem.empty()) return problem;
    if (!reported.dropped.empty()) return "is wrong: " + reported.dropped.front();
    value = std::move(reported.kept);
    return {};
  }
  static Json Write(const control::Metrics& metrics) {
    Json object = Json::object();
    for (const auto& [name, value] : metrics) {
      object[name] = JsonValue<control::MetricValue>::Write(value);
    }
    return object;
  }
};

Json JsonValue<control::ReportedMetrics>::Write(const control::ReportedMetrics& metrics) {
  return JsonValue<control::Metrics>::Write(metrics.kept);
}

}  // namespace tfos

namespace tfos::control {
namespace {

Status BadMessage(std::string problem) { return Status(ErrorKind::kBadInput, std::move(problem)); }

// `fields` of a message of that type, as a line.
std::string LineOf(std::string_view type, Json fields) {
  fields["type"] = type;
  return WriteJsonLine(fields);
}

// Reads `json` as `Alternative` if its type says so. True when it did, whatever came out.
template <typename Alternative, typename Message>
bool ReadAs(std::string_view type, const Json& json, Result<Message>& result) {
  if constexpr (std::same_as<Alternative, UnknownMessage>) {
    return false;
  } else {
    if (type != Alternative::kType) return false;
    Alternative message;
    JsonReader reader(json);
    Describe(reader, message);
    if (reader.error().empty()) {
      result = Message(std::move(message));
    } else {
      result = BadMessage("message '" + std::string(type) + "': " + reader.error());
    }
    return true;
  }
}

template <typename... Alternatives>
Result<std::variant<Alternatives...>> ReadAny(std::string_view type, const Json& json,
                                              std::type_identity<std::variant<Alternatives...>>) {
  using Message = std::variant<Alternatives...>;
  Result<Message> result = Message(UnknownMessage{std::string(type)});
  (ReadAs<Alternatives>(type, json, result) || ...);
  return result;
}

}  // namespace

Status CheckHeartbeats(std::chrono::milliseconds interval, std::chrono::milliseconds timeout) {
  if (timeout > interval) return Status::Ok();
  return Status(
      ErrorKind::kBadInput,
      fmt::format("the heartbeat timeout ({} s) must be longer than the heartbeat interval "
                  "({} s), or every node counts as lost between two heartbeats: raise "
                  "heartbeat_timeout (spark.tfos.heartbeat.timeout) or lower "
                  "heartbeat_interval (spark.tfos.heartbeat.interval)",
                  std::chrono::duration<double>(timeout).count(),
                  std::chrono::duration<double>(interval).count()));
}

std::string_view NodeStateName(NodeState state) {
  return kStateNames[static_cast<std::size_t>(state)];
}

template <typename Message>
Result<Message> ParseMessage(std::string_view text) {
  Result<Json> parsed = ParseJsonObject(text, kMaxMessageBytes, kTheMessage);
  if (!parsed.ok()) return parsed.status();
  const Json& json = *parsed;
  const auto type = json.find("type");
  if (type == json.end() || !type->is_string()) {
    return BadMessage("the message has no 'type' that is a string");
  }
  return ReadAny(type->get_ref<const std::string&>(), json, std::type_identity<Message>());
}

bool IsJsonObject(std::string_view text) {
  return ParseJsonObject(text, kMaxMessageBytes, kTheMessage).ok();
}

template <typename Message>
std::string SerializeMessage(const Message& message) {
  return LineOf(Message::kType, JsonValue<Message>::Write(message));
}

std::string SerializeStatus(const ClusterStatus& status) {
  return WriteJsonLine(JsonValue<ClusterStatus>::Write(status));
}

std::string SerializeFailure(const Failure& failure) {
  return WriteJsonLine(JsonValue<Failure>::Write(failure));
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

template Result<DriverMessage> ParseMessage<DriverMessage>(std::string_view);
template Result<CoordinatorEvent> ParseMessage<CoordinatorEvent>(std::string_view);
template Result<AgentMessage> ParseMessage<AgentMessage>(std::string_view);
template Result<AgentCommand> ParseMessage<AgentCommand>(std::string_view);
template Result<LaunchMessage> ParseMessage<LaunchMessage>(std::string_view);
template Result<LaunchEvent> ParseMessage<LaunchEvent>(std::string_view);
template Result<NodeCommand> ParseMessage<NodeCommand>(std::string_view);
template Result<NodeMessage> ParseMessage<NodeMessage>(std::string_view);

template std::string SerializeMessage(const EndEpoch&);
template std::string SerializeMessage(const StepReport&);
template std::string SerializeMessage(const StepTickets&);
template std::string SerializeMessage(const EndFeed&);
template std::string SerializeMessage(const Stop&);
template std::string SerializeMessage(const StateReport&);
template std::string SerializeMessage(const FailureMessage&);
template std::string SerializeMessage(const FeedTerminated&);
template std::string SerializeMessage(const Done&);
template std::string SerializeMessage(const StartCluster&);
template std::string SerializeMessage(const DriverFailure&);
template std::string SerializeMessage(const Exit&);
template std::string SerializeMessage(const Listening&);
template std::string SerializeMessage(const Fatal&);
template std::string SerializeMessage(const NodeChanged&);
template std::string SerializeMessage(const ClusterFormed&);
template std::string SerializeMessage(const ClusterFailed&);
template std::string SerializeMessage(const MetricsChanged&);
template std::string SerializeMessage(const NodeFeedTerminated&);
template std::string SerializeMessage(const Finished&);
template std::string SerializeMessage(const Register&);
template std::string SerializeMessage(const Heartbeat&);
template std::string SerializeMessage(const StartNode&);
template std::string SerializeMessage(const Refused&);
template std::string SerializeMessage(const AgentBootstrap&);
template std::string SerializeMessage(const Detach&);
template std::string SerializeMessage(const NodesFormed&);
template std::string SerializeMessage(const NodeBootstrap&);
template std::string SerializeMessage(const MetricsReport&);

}  // namespace tfos::control
