#include "control/messages/messages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

namespace tfos::control {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, kNodeStates> kStateNames = {
    "expected", "starting", "registered", "running", "draining", "done", "failed", "lost"};

constexpr std::size_t kMaxDepth = 64;         // of nested objects and lists
constexpr std::size_t kMaxMetrics = 256;      // in one message
constexpr std::size_t kMaxMetricBytes = 256;  // of a name or a string value

struct Range {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<int>::max();
};
constexpr Range kPort = {0, 65535};
constexpr Range kNodeId = {0, 999'999};
constexpr Range kEpoch = {0, std::numeric_limits<int>::max()};
constexpr Range kNodeIdOrNone = {-1, 999'999};
constexpr Range kAnyInt = {std::numeric_limits<std::int64_t>::min(),
                           std::numeric_limits<std::int64_t>::max()};
constexpr Range kSize = {0, std::numeric_limits<std::int64_t>::max()};

// Each message's fields are listed once, for reading and writing alike: `M` is `T` or `const T`.
template <typename M, typename T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

// Messages that are only their type.
template <typename M>
concept Empty = std::is_empty_v<M>;

template <typename F, Empty M>
void Describe(F&, M&) {}

template <typename F, Is<RoleCount> M>
void Describe(F& f, M& m) {
  f.Required("job", m.job);
  f.Required("count", m.count, Range{1, 1'000'000});
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
  f.Required("start_timeout_ms", m.start_timeout, Range{1});
  f.Required("heartbeat_interval_ms", m.heartbeat_interval, Range{1});
  f.Required("heartbeat_timeout_ms", m.heartbeat_timeout, Range{1});
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
  f.Required("watch_pid", m.watch_pid, Range{-1});
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
  f.Required("heartbeat_interval_ms", m.heartbeat_interval, Range{1});
  f.Required("heartbeat_timeout_ms", m.heartbeat_timeout, Range{1});
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
  f.Required("port_fd", m.port_fd, Range{-1});
  f.Required("tensor_port_fd", m.tensor_port_fd, Range{-1});
  f.Required("address", m.address);
  f.Required("host", m.host);
  f.Required("gpus", m.gpus);
  f.Required("gpu_fraction", m.gpu_fraction);
  f.Required("coordinator", m.coordinator);
  f.Optional("heartbeat_interval_ms", m.heartbeat_interval, Range{1});
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

// A field of bytes is written as the text whose characters have the bytes' numbers, so U+0001 to
// U+00FF. `text` is valid UTF-8.
std::optional<std::string> BytesOf(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) {
      if (byte > 0xC3) return std::nullopt;
      byte = static_cast<unsigned char>((byte << 6) | (text[++i] & 0x3F));
    }
    // For the operating system it would be the end.
    if (byte == 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string TextOf(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) text += static_cast<char>(0xC0 | (byte >> 6));
    text += byte < 0x80 ? c : static_cast<char>(0x80 | (byte & 0x3F));
  }
  return text;
}

// Reads the fields of one object. Keeps the first error: the field and what it must be.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  template <typename T>
  void Required(const char* name, T& value, Range range = {}) {
    const auto field = object_.find(name);
    if (field == object_.end()) {
      if (error_.empty()) error_ = std::string("field '") + name + "' is missing";
      return;
    }
    Read(name, *field, value, range);
  }

  template <typename T>
  void Optional(const char* name, T& value, Range range = {}) {
    const auto field = object_.find(name);
    if (field == object_.end() || field->is_null()) return;
    Read(name, *field, value, range);
  }

  template <typename T>
  void RequiredBytes(const char* name, T& value) {
    Required(name, value);
    if (!ToBytes(value) && error_.empty()) {
      error_ = std::string("field '") + name + "' must be bytes: characters from U+0001 to U+00FF";
    }
  }

  const std::string& error() const { return error_; }

 private:
  static bool ToBytes(std::string& value) {
    std::optional<std::string> bytes = BytesOf(value);
    if (bytes.has_value()) value = *std::move(bytes);
    return bytes.has_value();
  }
  static bool ToBytes(std::vector<std::string>& values) {
    return std::ranges::all_of(values, [](std::string& value) { return ToBytes(value); });
  }

  template <typename T>
  void Read(const char* name, const Json& json, T& value, Range range) {
    const std::string problem = Get(json, value, range);
    if (!problem.empty() && error_.empty()) error_ = std::string("field '") + name + "' " + problem;
  }

  // Each Get returns what is wrong, and nothing when the value was taken.
  static std::string Get(const Json& json, bool& value, Range) {
    if (!json.is_boolean()) return "must be true or false";
    value = json.get<bool>();
    return {};
  }

  template <typename T>
    requires std::same_as<T, int> || std::same_as<T, std::int64_t>
  static std::string Get(const Json& json, T& value, Range range) {
    // An unsigned value beyond int64 would wrap in the conversion, so it is ruled out first.
    const bool fits = json.is_number_integer() &&
                      (!json.is_number_unsigned() ||
                       json.get<std::uint64_t>() <=
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits || json.get<std::int64_t>() < range.min || json.get<std::int64_t>() > range.max) {
      return "must be a whole number from " + std::to_string(range.min) + " to " +
             std::to_string(range.max);
    }
    value = static_cast<T>(json.get<std::int64_t>());
    return {};
  }

  static std::string Get(const Json& json, std::chrono::milliseconds& value, Range range) {
    std::int64_t count = 0;
    std::string problem = Get(json, count, range);
    value = std::chrono::milliseconds(count);
    return problem;
  }

  static std::string Get(const Json& json, double& value, Range) {
    if (!json.is_number()) return "must be a number";
    value = json.get<double>();
    return {};
  }

  static std::string Get(const Json& json, std::string& value, Range) {
    if (!json.is_string()) return "must be a string";
    value = json.get_ref<const std::string&>();
    return {};
  }

  static std::string Get(const Json& json, NodeState& value, Range) {
    if (json.is_string()) {
      for (std::size_t i = 0; i < kStateNames.size(); ++i) {
        if (json.get_ref<const std::string&>() == kStateNames[i]) {
          value = static_cast<NodeState>(i);
          return {};
        }
      }
    }
    return "must be the name of a node state";
  }

  static std::string Get(const Json& json, Secret& value, Range) {
    if (json.is_string()) {
      if (auto secret = Secret::FromHex(json.get_ref<const std::string&>()); secret.ok()) {
        value = *secret;
        return {};
      }
    }
    return "must be 64 hexadecimal digits";
  }

  static std::string Get(const Json& json, RawJson& value, Range) {
    if (!json.is_object()) return "must be an object";
    value.text = json.dump();
    return {};
  }

  static std::string Get(const Json& json, MetricValue& value, Range range) {
    if (json.is_number_float()) return Get(json, value.emplace<double>(), range);
    if (json.is_number()) return Get(json, value.emplace<std::int64_t>(), kAnyInt);
    if (json.is_string() && json.get_ref<const std::string&>().size() <= kMaxMetricBytes) {
      return Get(json, value.emplace<std::string>(), range);
    }
    return "must be a number or a short string";
  }

  static std::string Get(const Json& json, Metrics& value, Range range) {
    if (!json.is_object() || json.size() > kMaxMetrics) {
      return "must be an object of at most " + std::to_string(kMaxMetrics) + " metrics";
    }
    for (const auto& [name, metric] : json.items()) {
      if (metric.is_null()) continue;  // how a number that is not finite is written
      if (name.empty() || name.size() > kMaxMetricBytes) return "has a metric without a fit name";
      if (std::string problem = Get(metric, value[name], range); !problem.empty()) {
        return "has a metric that " + problem;
      }
    }
    return {};
  }

  template <typename T>
  static std::string Get(const Json& json, std::vector<T>& value, Range range) {
    if (!json.is_array()) return "must be a list";
    for (const Json& element : json) {
      if (std::string problem = Get(element, value.emplace_back(), range); !problem.empty()) {
        return "has an element that " + problem;
      }
    }
    return {};
  }

  template <typename T>
  static std::string Get(const Json& json, std::map<std::string, T>& value, Range range) {
    if (!json.is_object()) return "must be an object";
    for (const auto& [name, element] : json.items()) {
      if (std::string problem = Get(element, value[name], range); !problem.empty()) {
        return "has an element that " + problem;
      }
    }
    return {};
  }

  template <typename T>
  static std::string Get(const Json& json, std::optional<T>& value, Range range) {
    return Get(json, value.emplace(), range);
  }

  // Objects of the protocol.
  template <typename T>
    requires requires(Reader& reader, T& value) { Describe(reader, value); }
  static std::string Get(const Json& json, T& value, Range) {
    if (!json.is_object()) return "must be an object";
    Reader reader(json);
    Describe(reader, value);
    return reader.error().empty() ? "" : "is wrong: " + reader.error();
  }

  const Json& object_;
  std::string error_;
};

class Writer {
 public:
  template <typename T>
  void Required(const char* name, const T& value, Range = {}) {
    object_[name] = Put(value);
  }
  template <typename T>
  void Optional(const char* name, const T& value, Range = {}) {
    object_[name] = Put(value);
  }
  void RequiredBytes(const char* name, const std::string& value) { object_[name] = TextOf(value); }
  void RequiredBytes(const char* name, const std::vector<std::string>& values) {
    object_[name] = Json::array();
    for (const std::string& value : values) object_[name].push_back(TextOf(value));
  }

  std::string Text() const { return Dump(object_); }
  void SetType(std::string_view type) { object_["type"] = type; }

 private:
  static std::string Dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  template <typename T>
    requires std::is_arithmetic_v<T> || std::same_as<T, std::string>
  static Json Put(const T& value) {
    return value;
  }
  static Json Put(std::chrono::milliseconds value) { return value.count(); }
  static Json Put(NodeState state) { return NodeStateName(state); }
  static Json Put(const Secret& secret) { return secret.ToHex(); }
  static Json Put(const RawJson& raw) { return Json::parse(raw.text, nullptr, false); }
  static Json Put(const MetricValue& metric) {
    return std::visit([](const auto& value) { return Json(value); }, metric);
  }
  template <typename T>
  static Json Put(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(Put(value));
    return list;
  }
  template <typename T>
  static Json Put(const std::map<std::string, T>& values) {
    Json object = Json::object();
    for (const auto& [name, value] : values) object[name] = Put(value);
    return object;
  }
  template <typename T>
  static Json Put(const std::optional<T>& value) {
    return value.has_value() ? Put(*value) : Json(nullptr);
  }
  template <typename T>
    requires requires(Writer& writer, const T& value) { Describe(writer, value); }
  static Json Put(const T& value) {
    Writer writer;
    Describe(writer, value);
    return std::move(writer.object_);
  }

  Json object_ = Json::object();
};

Status BadMessage(std::string problem) { return Status(ErrorKind::kBadInput, std::move(problem)); }

// The parser keeps its own stack, but writing a value back recurses: bound how deep that can go.
bool TooDeep(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return true;
    } else if (c == '}' || c == ']') {
      if (depth > 0) --depth;
    }
  }
  return false;
}

// Reads `json` as `Alternative` if its type says so. True when it did, whatever came out.
template <typename Alternative, typename Message>
bool ReadAs(std::string_view type, const Json& json, Result<Message>& result) {
  if constexpr (std::same_as<Alternative, UnknownMessage>) {
    return false;
  } else {
    if (type != Alternative::kType) return false;
    Alternative message;
    Reader reader(json);
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

std::string_view NodeStateName(NodeState state) {
  return kStateNames[static_cast<std::size_t>(state)];
}

template <typename Message>
Result<Message> ParseMessage(std::string_view text) {
  if (text.size() > kMaxMessageBytes) {
    return BadMessage("the message is longer than " + std::to_string(kMaxMessageBytes) + " bytes");
  }
  if (TooDeep(text)) return BadMessage("the message is nested too deeply");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return BadMessage("the message is not a JSON object");
  const auto type = json.find("type");
  if (type == json.end() || !type->is_string()) {
    return BadMessage("the message has no 'type' that is a string");
  }
  return ReadAny(type->get_ref<const std::string&>(), json, std::type_identity<Message>());
}

template <typename Message>
std::string SerializeMessage(const Message& message) {
  Writer writer;
  Describe(writer, message);
  writer.SetType(Message::kType);
  return writer.Text();
}

std::string SerializeStatus(const ClusterStatus& status) {
  Writer writer;
  Describe(writer, status);
  return writer.Text();
}

std::string SerializeFailure(const Failure& failure) {
  Writer writer;
  Describe(writer, failure);
  return writer.Text();
}

std::string SerializeStartHead(const StartNode& message) {
  Writer writer;
  DescribeOwnPart(writer, message);
  writer.SetType(StartNode::kType);
  std::string text = writer.Text();
  text.back() = ',';  // instead of the closing brace, which the tail brings
  return text;
}

std::string SerializeStartTail(const StartNode& message) {
  Writer writer;
  DescribeSharedPart(writer, message);
  return writer.Text().substr(1);
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
