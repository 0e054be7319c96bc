#include "control/messages/agent_messages.h"

#include "control/messages/message_test_suite.h"

namespace tfos::control {

template <>
std::vector<std::string> Examples<AgentMessage>() {
  return {
      R"({"type":"register","protocol":1,"node_id":0,"host":"h","address":"10.0.0.6","port":2222,"tensor_port":2223,
          "agent_pid":2,"executor_id":"0","gpus":["0"]})",
      R"({"type":"state","state":"running","detail":"d","pid":1,
          "feed":{"socket":"s","port":1},"tensorboard":{"pid":3,"port":6006}})",
      R"({"type":"heartbeat","metrics":{"rows":1,"loss":0.5,"x":"y"}})",
      R"({"type":"step_report","queue":"input","epoch":3,"full_batches":5,"ended":true,
          "batches":6,"rows":95,"passable_rows":40,"batch_rows":16,"made":4,"waits":true,"looked":7})",
      R"({"type":"ready","generation":2,"committed":17,"leaves":false,"reason":"r",
          "admits":true,"lacks":2})",
      R"({"type":"feed_terminated"})",
      R"({"type":"failed","failure":REPORT})",
      R"({"type":"done"})",
      R"({"type":"answer","number":7,"text":"a\nb","from":3,"next":6,"ended":true,
          "refused":true})",
  };
}

template <>
std::vector<std::string> Examples<AgentCommand>() {
  return {
      R"({"type":"start","job_name":"worker","task_index":0,"cluster_spec":{"worker":["a:1"]},
          "num_workers":1,"nodes":[NODE],"tensorboard":true,"joins":true})",
      R"({"type":"end_epoch","epoch":3,"queue":"input"})",
      R"({"type":"abandon_epoch","epoch":3,"job":"00ff","queue":"input"})",
      R"({"type":"end_job","job":"00ff"})",
      R"({"type":"step_tickets","queue":"input","epoch":3,"granted":5,"final":true,"longest":7,
          "ending":true,"passes":[{"from":0,"to":1,"rows":9,"address":"10.0.0.6","feed":{"socket":"s","port":7}}],
          "missing":["worker:1"],"look":7})",
      R"({"type":"regroup","generation":2,"reason":"r"})",
      R"({"type":"group","generation":2,"committed":17,"admits":true,
          "members":[{"rank":0,"name":"worker:0 on host h","address":"10.0.0.6","port":2223}]})",
      R"({"type":"meet","reason":"r"})",
      R"({"type":"no_group","reason":"r"})",
      R"({"type":"end_feed","at_once":true})",
      R"({"type":"leaving","node_id":1,"reason":"r"})",
      R"({"type":"moved","node_id":1,"name":"ps:1 on host h","address":"10.0.0.6","tensor_port":2223})",
      R"({"type":"stop","reason":"r","grace_ms":1})",
      R"({"type":"refused","message":"m"})",
      R"({"type":"stand_by","reason":"r"})",
      R"({"type":"tunnel","number":7})",
      R"({"type":"question","number":7,"about":"output","after":-1,"lines":10,"wait_ms":500,
          "by":"alice@host-a","more":true})",
  };
}

namespace {

using Directions = testing::Types<AgentMessage, AgentCommand>;
INSTANTIATE_TYPED_TEST_SUITE_P(Agent, MessagesTest, Directions);

TEST(AgentMessagesTest, OnlyFieldsThatMayBeMissingMayBeMissing) {
  EXPECT_FALSE(ParseMessage<AgentMessage>(R"({"type":"state"})").ok());
  EXPECT_TRUE(ParseMessage<AgentMessage>(R"({"type":"state","state":"running"})").ok());
  EXPECT_FALSE(ParseMessage<AgentMessage>(R"({"type":"heartbeat"})").ok());
  EXPECT_FALSE(ParseMessage<AgentMessage>(R"({"type":"failed","failure":{"step":"s"}})").ok());
}

TEST(AgentMessagesTest, RefusesWhatIsNoMessage) {
  for (const std::string text :
       {"", "null", "[]", "1", "{", "{}", R"({"type":1})", "\xff\xfe", R"({"type":"done"}x)"}) {
    EXPECT_FALSE(ParseMessage<AgentMessage>(text).ok()) << text;
  }
}

TEST(AgentMessagesTest, RefusesMessagesThatAreTooLongOrTooDeep) {
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

TEST(AgentMessagesTest, MetricsAreBounded) {
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

// The coordinator keeps these texts, and tells them to others.
TEST(AgentMessagesTest, TextsAreBounded) {
  const auto parse = [](json message, const std::string& pointer, const json& value) {
    message[json::json_pointer(pointer)] = value;
    return ParseMessage<AgentMessage>(message.dump()).status();
  };
  struct Field {
    const char* pointer;
    std::size_t most;
  };
  const std::vector<std::pair<const char*, std::vector<Field>>> fields = {
      {"register", {{"/host", 256}, {"/address", 256}, {"/executor_id", 256}, {"/gpus/0", 256}}},
      {"state", {{"/detail", 128 << 10}, {"/feed/socket", 256}}},
      {"step_report", {{"/queue", 256}}},
      {"ready", {{"/reason", 128 << 10}}},
      {"failed",
       {{"/failure/step", 256},
        {"/failure/message", 128 << 10},
        {"/failure/traceback", 2 << 20},
        {"/failure/log_tail/0", 8 << 10}}}};
  for (const std::string& example : Examples<AgentMessage>()) {
    const json message = json::parse(Fill(example));
    for (const auto& [type, of_type] : fields) {
      if (message["type"] != type) continue;
      for (const auto& [pointer, most] : of_type) {
        EXPECT_TRUE(parse(message, pointer, std::string(most, 'x')).ok()) << pointer;
        EXPECT_THAT(parse(message, pointer, std::string(most + 1, 'x')).ToString(),
                    HasSubstr("must have 0 to " + std::to_string(most) + " bytes"))
            << pointer;
      }
    }
    if (message["type"] == "register") {
      EXPECT_TRUE(parse(message, "/gpus", std::vector<std::string>(256)).ok());
      EXPECT_FALSE(parse(message, "/gpus", std::vector<std::string>(257)).ok());
    }
    if (message["type"] == "failed") {
      EXPECT_TRUE(parse(message, "/failure/log_tail", std::vector<std::string>(50)).ok());
      EXPECT_FALSE(parse(message, "/failure/log_tail", std::vector<std::string>(51)).ok());
    }
  }
}

TEST(AgentMessagesTest, OfAnUnknownTypeTheBeginningIsTold) {
  const json message = {{"type", std::string(300, 'x')}};
  const auto unknown = ParseMessage<AgentMessage>(message.dump());
  ASSERT_TRUE(unknown.ok());
  EXPECT_EQ(std::get<UnknownMessage>(*unknown).type, std::string(256, 'x'));
}

TEST(AgentMessagesTest, StartInTwoPiecesIsTheWholeMessage) {
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
