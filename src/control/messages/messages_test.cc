#include "control/messages/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tfos::control {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kToken = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
constexpr const char* kNode =
    R"({"node_id":0,"job_name":"worker","task_index":0,"state":"running","detail":"text",)"
    R"("since_ms":12,"host":"h","address":"10.0.0.6","port":2222,"tensor_port":2223,"pid":1,"agent_pid":2,)"
    R"("executor_id":"0","gpus":["0"],"feed":{"socket":"tfos-s","port":40000},)"
    R"("tensorboard":{"pid":3,"port":6006}})";
constexpr const char* kFailure =
    R"({"node_id":0,"job_name":"worker","task_index":0,"host":"h","executor_id":"0",)"
    R"("step":"run map_fun","message":"ValueError: x","traceback":"t","log_tail":["a","b"],"lost":false})";
constexpr const char* kReport =
    R"({"step":"run map_fun","message":"ValueError: x","traceback":"t","log_tail":["a"],"lost":true})";

std::string Fill(std::string text) {
  for (const auto& [mark, value] : std::vector<std::pair<std::string, std::string>>{
           {"TOKEN", kToken}, {"NODE", kNode}, {"FAILURE", kFailure}, {"REPORT", kReport}}) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark)) {
      text.replace(at, mark.size(), value);
    }
  }
  return text;
}

/// One example of each message of a direction.
template <typename Message>
std::vector<std::string> Examples();

template <>
std::vector<std::string> Examples<DriverMessage>() {
  return {
      R"({"type":"start","protocol":1,"cluster_id":"c","token":"TOKEN","bind_address":"0.0.0.0",
          "advertised_address":"","ports":"0","roles":[{"job":"worker","count":2}],
          "service_jobs":["ps"],"tensorboard_node":1,"registration_timeout_ms":1000,
          "start_timeout_ms":1000,"heartbeat_interval_ms":1000,"heartbeat_timeout_ms":10000,"max_lost_nodes":1,"log_level":"INFO"})",
      R"({"type":"end_epoch","epoch":3,"queue":"input"})",
      R"({"type":"end_feed"})",
      R"({"type":"stop","reason":"r","grace_ms":5000})",
      R"({"type":"fail","node":-1,"step":"launch","message":"m","traceback":"t","log_tail":[],"lost":false})",
      R"({"type":"exit"})",
  };
}

template <>
std::vector<std::string> Examples<CoordinatorEvent>() {
  return {
      R"({"type":"listening","address":"10.0.0.5","port":41234})",
      R"({"type":"fatal","message":"m"})",
      R"({"type":"node","node":NODE})",
      R"({"type":"formed","nodes":[NODE,NODE]})",
      R"({"type":"failed","failure":FAILURE})",
      R"({"type":"metrics","nodes":[{"node_id":0,"metrics":{"rows":1,"loss":0.5,"x":"y"}}]})",
      R"({"type":"feed_terminated","node_id":1})",
      R"({"type":"finished"})",
  };
}

template <>
std::vector<std::string> Examples<AgentMessage>() {
  return {
      R"({"type":"register","protocol":1,"node_id":0,"host":"h","address":"10.0.0.6","port":2222,"tensor_port":2223,
          "agent_pid":2,"executor_id":"0","gpus":["0"]})",
      R"({"type":"state","state":"running","detail":"d","pid":1,
          "feed":{"socket":"s","port":1},"tensorboard":{"pid":3,"port":6006}})",
      R"({"type":"heartbeat","metrics":{"rows":1,"loss":0.5,"x":"y"}})",
      R"({"type":"step_report","queue":"input","epoch":3,"full_batches":5,"ended":true,
          "batches":6,"rows":95,"passable_rows":40,"batch_rows":16})",
      R"({"type":"feed_terminated"})",
      R"({"type":"failed","failure":REPORT})",
      R"({"type":"done"})",
  };
}

template <>
std::vector<std::string> Examples<AgentCommand>() {
  return {
      R"({"type":"start","job_name":"worker","task_index":0,"cluster_spec":{"worker":["a:1"]},
          "num_workers":1,"nodes":[NODE],"tensorboard":true})",
      R"({"type":"end_epoch","epoch":3,"queue":"input"})",
      R"({"type":"step_tickets","queue":"input","epoch":3,"granted":5,"final":true,"longest":7,"closed":false,
          "ending":true,"passes":[{"from":0,"to":1,"rows":9,"address":"10.0.0.6","feed":{"socket":"s","port":7}}],
          "missing":["worker:1"]})",
      R"({"type":"end_feed"})",
      R"({"type":"stop","reason":"r","grace_ms":1})",
      R"({"type":"refused","message":"m"})",
  };
}

template <>
std::vector<std::string> Examples<LaunchMessage>() {
  return {
      R"({"type":"bootstrap","protocol":1,"cluster_id":"c","token":"TOKEN",
          "coordinator":{"address":"10.0.0.5","port":1},"node_id":0,"executor_id":"0",
          "watch_pid":1234,"python":["python3"],"cwd":"/\u00ff","environment":["A=b\u00e9","C="],
          "advertised_address":"","ports":"0",
          "gpus":{"assigned":["0"],"count":1,"fraction":0.5},"log_level":"INFO",
          "node":{"x":[1]},"tensorboard":["tb"],"registration_timeout_ms":1,
          "heartbeat_interval_ms":1,"heartbeat_timeout_ms":1,"payload_bytes":3})",
      R"({"type":"detach"})",
  };
}

template <>
std::vector<std::string> Examples<LaunchEvent>() {
  return {
      R"({"type":"state","state":"starting","detail":"d","pid":0,"feed":null,"tensorboard":null})",
      R"({"type":"formed"})",
      R"({"type":"failed","failure":REPORT})",
  };
}

template <>
std::vector<std::string> Examples<NodeCommand>() {
  return {
      R"({"type":"bootstrap","cluster_id":"c","token":"TOKEN","node_id":0,"executor_id":"0",
          "job_name":"worker","task_index":0,"cluster_spec":{"worker":["a:1"]},"num_workers":1,
          "nodes":[NODE],"port":1,"port_fd":5,"tensor_port_fd":6,"address":"a","host":"h","gpus":[],
          "gpu_fraction":0.0,"coordinator":{"address":"10.0.0.5","port":1},
          "heartbeat_interval_ms":1000,"node":{},"payload_bytes":3})",
      R"({"type":"end_epoch","epoch":3,"queue":"input"})",
      R"({"type":"step_tickets","queue":"input","epoch":3,"granted":5,"final":true,"longest":7,"closed":false,
          "ending":true,"passes":[{"from":0,"to":1,"rows":9,"address":"10.0.0.6","feed":{"socket":"s","port":7}}],
          "missing":["worker:1"]})",
      R"({"type":"end_feed"})",
      R"({"type":"stop","reason":"r","grace_ms":0})",
  };
}

template <>
std::vector<std::string> Examples<NodeMessage>() {
  return {
      R"({"type":"state","state":"running","detail":"d","pid":0,
          "feed":{"socket":"s","port":1},"tensorboard":null})",
      R"({"type":"metrics","metrics":{"rows":1}})",
      R"({"type":"step_report","queue":"input","epoch":3,"full_batches":5,"ended":true,
          "batches":6,"rows":95,"passable_rows":40,"batch_rows":16})",
      R"({"type":"feed_terminated"})",
      R"({"type":"failed","failure":REPORT})",
      R"({"type":"done"})",
  };
}

template <typename Message>
std::string Reserialized(const Message& message) {
  return std::visit(
      [](const auto& alternative) {
        using Alternative = std::decay_t<decltype(alternative)>;
        if constexpr (std::is_same_v<Alternative, UnknownMessage>) {
          return std::string("unknown");
        } else {
          return SerializeMessage(alternative);
        }
      },
      message);
}

template <typename Message>
class MessagesTest : public testing::Test {};

using Directions = testing::Types<DriverMessage, CoordinatorEvent, AgentMessage, AgentCommand,
                                  LaunchMessage, LaunchEvent, NodeCommand, NodeMessage>;
TYPED_TEST_SUITE(MessagesTest, Directions);

TYPED_TEST(MessagesTest, EveryTypeHasAnExample) {
  // One alternative is UnknownMessage.
  EXPECT_EQ(Examples<TypeParam>().size(), std::variant_size_v<TypeParam> - 1);
}

TYPED_TEST(MessagesTest, ReadingAndWritingKeepsEveryField) {
  for (const std::string& example : Examples<TypeParam>()) {
    const std::string text = Fill(example);
    const auto message = ParseMessage<TypeParam>(text);
    ASSERT_TRUE(message.ok()) << text << ": " << message.status().ToString();
    EXPECT_EQ(json::parse(Reserialized(*message)), json::parse(text));
  }
}

TYPED_TEST(MessagesTest, FieldsThatAreMissingOrMistypedAreNamed) {
  for (const std::string& example : Examples<TypeParam>()) {
    const json whole = json::parse(Fill(example));
    for (const auto& [name, value] : whole.items()) {
      json mistyped = whole;
      mistyped[name] = json::array({json::array()});
      const auto result = ParseMessage<TypeParam>(mistyped.dump());
      ASSERT_FALSE(result.ok()) << mistyped.dump();
      EXPECT_EQ(result.status().kind(), ErrorKind::kBadInput);
      EXPECT_THAT(result.status().ToString(), HasSubstr("'" + name + "'"));

      json missing = whole;
      missing.erase(name);
      if (auto without = ParseMessage<TypeParam>(missing.dump()); !without.ok()) {
        EXPECT_THAT(without.status().ToString(), HasSubstr("'" + name + "'"));
      }
    }
  }
}

TYPED_TEST(MessagesTest, UnknownFieldsAreIgnored) {
  for (const std::string& example : Examples<TypeParam>()) {
    json extended = json::parse(Fill(example));
    extended["of a newer version"] = json::array({1, 2});
    EXPECT_TRUE(ParseMessage<TypeParam>(extended.dump()).ok());
  }
}

TYPED_TEST(MessagesTest, UnknownTypesAreTold) {
  const auto message = ParseMessage<TypeParam>(R"({"type":"of a newer version","x":1})");
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(std::get<UnknownMessage>(*message).type, "of a newer version");
}

TYPED_TEST(MessagesTest, FlippedBitsNeverCrashAndWhatIsTakenCanBeWritten) {
  for (const std::string& example : Examples<TypeParam>()) {
    const std::string text = Fill(example);
    for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
      std::string flipped = text;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      if (auto message = ParseMessage<TypeParam>(flipped); message.ok()) {
        EXPECT_FALSE(Reserialized(*message).empty());
      }
    }
    for (std::size_t length = 0; length < text.size(); ++length) {
      EXPECT_FALSE(ParseMessage<TypeParam>(std::string_view(text).substr(0, length)).ok());
    }
  }
}

TEST(MessageLimitsTest, OnlyFieldsThatMayBeMissingMayBeMissing) {
  EXPECT_FALSE(ParseMessage<AgentMessage>(R"({"type":"state"})").ok());
  EXPECT_TRUE(ParseMessage<AgentMessage>(R"({"type":"state","state":"running"})").ok());
  EXPECT_FALSE(ParseMessage<AgentMessage>(R"({"type":"heartbeat"})").ok());
  EXPECT_FALSE(ParseMessage<AgentMessage>(R"({"type":"failed","failure":{"step":"s"}})").ok());
}

TEST(MessageLimitsTest, RefusesWhatIsNoMessage) {
  for (const std::string text :
       {"", "null", "[]", "1", "{", "{}", R"({"type":1})", "\xff\xfe", R"({"type":"done"}x)"}) {
    EXPECT_FALSE(ParseMessage<AgentMessage>(text).ok()) << text;
  }
}

TEST(MessageLimitsTest, RefusesNumbersOutOfRange) {
  const auto with_port = [](const std::string& port) {
    return ParseMessage<CoordinatorEvent>(R"({"type":"listening","address":"a","port":)" + port +
                                          "}");
  };
  EXPECT_TRUE(with_port("0").ok());
  EXPECT_TRUE(with_port("65535").ok());
  for (const char* port : {"-1", "65536", "1.5", "18446744073709551615", "1e3", "\"1\""}) {
    EXPECT_FALSE(with_port(port).ok()) << port;
  }
}

TEST(MessageLimitsTest, RefusesMessagesThatAreTooLongOrTooDeep) {
  std::string longest = R"({"type":"done","x":")";
  longest += std::string(kMaxMessageBytes - longest.size() - 2, 'x') + "\"}";
  EXPECT_TRUE(ParseMessage<AgentMessage>(longest).ok());
  EXPECT_FALSE(ParseMessage<AgentMessage>(longest + " ").ok());
  const auto nested = [](std::size_t depth) {
    return R"({"type":"done","x":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(ParseMessage<AgentMessage>(nested(60)).ok());
  EXPECT_FALSE(ParseMessage<AgentMessage>(nested(70)).ok());
  EXPECT_FALSE(ParseMessage<AgentMessage>(nested(1'000'000)).ok());
}

TEST(MessageLimitsTest, MetricsAreBounded) {
  json message = {{"type", "heartbeat"}, {"metrics", json::object()}};
  for (int i = 0; i < 256; ++i) message["metrics"]["m" + std::to_string(i)] = i;
  EXPECT_TRUE(ParseMessage<AgentMessage>(message.dump()).ok());
  message["metrics"]["one more"] = 1;
  EXPECT_FALSE(ParseMessage<AgentMessage>(message.dump()).ok());
  message["metrics"] = {{"text", std::string(257, 'x')}};
  EXPECT_FALSE(ParseMessage<AgentMessage>(message.dump()).ok());
  message["metrics"] = {{"list", json::array()}};
  EXPECT_FALSE(ParseMessage<AgentMessage>(message.dump()).ok());
}

TEST(MessageLimitsTest, AMetricBeyondSignedIntegersIsTheNearestNumber) {
  const auto message = ParseMessage<NodeMessage>(
      R"({"type":"metrics","metrics":{"most":9223372036854775807,"seed":18446744073709551615}})");
  ASSERT_TRUE(message.ok()) << message.status().ToString();
  const Metrics& metrics = std::get<MetricsReport>(*message).metrics.kept;
  EXPECT_EQ(metrics.at("most"), MetricValue(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(metrics.at("seed"), MetricValue(18446744073709551615.0));
}

TEST(MessageLimitsTest, MetricsOfAProgramThatCannotBeCarriedAreDroppedAndNamed) {
  const std::string long_name(257, 'n');
  json message = {{"type", "metrics"}, {"metrics", {{"good", 1}, {"", 2}, {"list", {1}}}}};
  message["metrics"][long_name] = 3;
  message["metrics"]["text"] = std::string(257, 'x');
  const auto parsed = ParseMessage<NodeMessage>(message.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const ReportedMetrics& metrics = std::get<MetricsReport>(*parsed).metrics;
  EXPECT_THAT(metrics.kept, testing::ElementsAre(testing::Key("good")));
  EXPECT_THAT(metrics.dropped,
              testing::UnorderedElementsAre(
                  "metric '' must have a name of 1 to 256 bytes",
                  "metric '" + long_name.substr(0, 40) + "' must have a name of 1 to 256 bytes",
                  "metric 'list' must be a number or a string of at most 256 bytes",
                  "metric 'text' must be a number or a string of at most 256 bytes"));
}

TEST(MessageLimitsTest, MetricsBeyondTheMostAreDropped) {
  json message = {{"type", "metrics"}, {"metrics", json::object()}};
  for (int i = 0; i < 258; ++i) message["metrics"]["m" + std::to_string(i)] = i;
  const auto parsed = ParseMessage<NodeMessage>(message.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const ReportedMetrics& metrics = std::get<MetricsReport>(*parsed).metrics;
  EXPECT_EQ(metrics.kept.size(), 256u);
  EXPECT_EQ(metrics.dropped.size(), 2u);
}

TEST(MessageLimitsTest, TellsAnObjectOfJsonFromAnythingElse) {
  EXPECT_TRUE(IsJsonObject(R"({"type":"state","state":7})"));
  EXPECT_FALSE(IsJsonObject("Segmentation fault"));
  EXPECT_FALSE(IsJsonObject("[1]"));
}

TEST(MessageLimitsTest, HeartbeatsMustComeMoreOftenThanTheyAreMissed) {
  using std::chrono::milliseconds;
  EXPECT_TRUE(CheckHeartbeats(milliseconds(1000), milliseconds(10'000)).ok());
  for (const int timeout : {10, 1000}) {
    const Status status = CheckHeartbeats(milliseconds(1000), milliseconds(timeout));
    EXPECT_EQ(status.kind(), ErrorKind::kBadInput);
    EXPECT_THAT(status.message(), HasSubstr("(1 s), or every node counts as lost"));
  }
}

TEST(MessageLimitsTest, AnErrorNeverRepeatsTheToken) {
  for (const std::string& example : Examples<DriverMessage>()) {
    std::string text = Fill(example);
    const std::size_t at = text.find(kToken);
    if (at == std::string::npos) continue;
    text[at] = 'g';  // no hexadecimal digit
    const auto result = ParseMessage<DriverMessage>(text);
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(result.status().DebugString(), testing::Not(HasSubstr("112233")));
  }
}

TEST(MessageTextTest, BytesThatAreNoUtf8AreReplaced) {
  FailureMessage message;
  message.failure.message = "bad \xff byte";
  EXPECT_EQ(json::parse(SerializeMessage(message))["failure"]["message"], "bad \xEF\xBF\xBD byte");
}

TEST(MessageTextTest, FieldsOfBytesHoldEveryByteButTheOneThatEndsText) {
  json message = json::parse(Fill(Examples<LaunchMessage>()[0]));
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  AgentBootstrap sent;
  sent.environment = {"X=" + all};
  message["environment"] = json::parse(SerializeMessage(sent))["environment"];
  const auto parsed = ParseMessage<LaunchMessage>(message.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(std::get<AgentBootstrap>(*parsed).environment, sent.environment);

  for (const auto& beyond : {std::string("X=\xC4\x80"), std::string("X=\0", 3)}) {
    message["environment"] = json::array({beyond});
    const auto refused = ParseMessage<LaunchMessage>(message.dump());
    ASSERT_FALSE(refused.ok()) << beyond;
    EXPECT_THAT(refused.status().ToString(), HasSubstr("'environment' must be bytes"));
  }
}

TEST(MessageTextTest, StartInTwoPiecesIsTheWholeMessage) {
  StartNode message;
  message.job_name = "worker";
  message.task_index = 3;
  message.tensorboard = true;
  message.num_workers = 2;
  message.cluster_spec = {{"worker", {"a:1", "b:2"}}};
  message.nodes.resize(2);
  EXPECT_EQ(json::parse(SerializeStartHead(message) + SerializeStartTail(message)),
            json::parse(SerializeMessage(message)));
}

}  // namespace
}  // namespace tfos::control
