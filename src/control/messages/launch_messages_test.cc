#include "control/messages/launch_messages.h"

#include "control/messages/message_test_suite.h"

namespace tfos::control {

template <>
std::vector<std::string> Examples<LaunchMessage>() {
  return {
      R"({"type":"bootstrap","protocol":1,"cluster_id":"c","encrypt":"auto",
          "keys":{"join":"TOKEN","feed":"TOKEN","tensors":"TOKEN","parameters":"TOKEN"},
          "coordinator":{"address":"10.0.0.5","port":1},"node_id":0,"executor_id":"0",
          "watch_pid":1234,"python":["python3"],"cwd":"/\u00ff","environment":["A=b\u00e9","C="],
          "advertised_address":"","bind_address":"","ports":"0",
          "gpus":{"assigned":["0"],"count":1,"fraction":0.5,"of_executor":["0","1"],"may_share":true},"log_level":"INFO",
          "node":{"x":[1]},"result_fd":7,"tensorboard":["tb"],"registration_timeout_ms":1,
          "heartbeat_interval_ms":1,"heartbeat_timeout_ms":1,"answer_timeout_ms":1,"payload_bytes":3})",
      R"({"type":"detach"})",
  };
}

template <>
std::vector<std::string> Examples<LaunchEvent>() {
  return {
      R"({"type":"state","state":"starting","detail":"d","pid":0,"feed":null,"tensorboard":null})",
      R"({"type":"formed"})",
      R"({"type":"stand_by","reason":"r"})",
      R"({"type":"failed","failure":REPORT})",
  };
}

namespace {

using Directions = testing::Types<LaunchMessage, LaunchEvent>;
INSTANTIATE_TYPED_TEST_SUITE_P(Launch, MessagesTest, Directions);

TEST(LaunchMessagesTest, FieldsOfBytesHoldEveryByteButTheOneThatEndsText) {
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

}  // namespace
}  // namespace tfos::control
