#include "control/messages/driver_messages.h"

#include "control/messages/message_test_suite.h"

namespace tfos::control {

template <>
std::vector<std::string> Examples<DriverMessage>() {
  return {
      R"({"type":"start","protocol":1,"cluster_id":"c","name":"app","token":"TOKEN",
          "scrape_token":"s","encrypt":"auto","bind_address":"0.0.0.0",
          "advertised_address":"","ports":"0","roles":[{"job":"worker","count":2}],
          "service_jobs":["ps"],"tensorboard_node":1,"registration_timeout_ms":1000,
          "start_timeout_ms":1000,"heartbeat_interval_ms":1000,"heartbeat_timeout_ms":10000,"step_timeout_ms":0,"stop_grace_ms":5000,"max_lost_nodes":1,"min_nodes":2,
          "min_nodes_timeout_ms":300000,"late_nodes":true,"max_losses_of_host":3,"loss_period_ms":3600000,"restarts":4,"returning_nodes":1,"log_level":"INFO"})",
      R"({"type":"end_epoch","epoch":3,"queue":"input"})",
      R"({"type":"end_job","job":"00ff"})",
      R"({"type":"abandon_epoch","epoch":3,"job":"00ff","queue":"input"})",
      R"({"type":"ask_drained","epoch":3,"number":7,"queue":"input"})",
      R"({"type":"begin_epoch","epoch":3,"number":7,"queue":"input"})",
      R"({"type":"end_feed","at_once":true})",
      R"({"type":"leaving","node_id":1,"reason":"r"})",
      R"({"type":"stop","reason":"r","grace_ms":5000})",
      R"({"type":"fail","node":-1,"step":"launch","message":"m","traceback":"t","log_tail":[],"lost":false})",
      R"({"type":"activity","doing":"feeding","items_read":7,"items_moved":1,"unit":"rows","cut_short":true,
          "epoch":2,"epochs":5,"epochs_before":1,"epoch_fed":0.5,"items_before":3,"items_planned":9})",
      R"({"type":"stop_asked","by":"the driver program","timeout_ms":60000})",
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
      R"({"type":"metrics","nodes":[{"node_id":0,"metrics":{"rows":1,"loss":0.5,"x":"y"}}],
          "progress":{"epoch":2,"epochs":5,"step":7,"done":0.5,"left_seconds":1.5,"loss":0.5,
          "bad_loss":"nan on worker:1","steps_per_second":1.5,"rows_per_second":2.5,"waits":"nodes","nodes":"n","silent":"s",
          "stuck":"s","text":"t"},"rates":{"0":{"feed_bytes":1000.5,"rows":2.5}}})",
      R"({"type":"feed_terminated","node_id":1})",
      R"({"type":"epoch_drained","number":7})",
      R"({"type":"epoch_begins","number":7})",
      R"({"type":"waiting","reason":"r"})",
      R"({"type":"turned_away","node_id":1,"host":"h","reason":"r"})",
      R"({"type":"stop_asked","by":"alice@host-a","timeout_ms":60000})",
      R"({"type":"finished"})",
  };
}

namespace {

using Directions = testing::Types<DriverMessage, CoordinatorEvent>;
INSTANTIATE_TYPED_TEST_SUITE_P(Driver, MessagesTest, Directions);

TEST(DriverMessagesTest, RefusesNumbersOutOfRange) {
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

TEST(DriverMessagesTest, HeartbeatsMustComeMoreOftenThanTheyAreMissed) {
  using std::chrono::milliseconds;
  EXPECT_TRUE(CheckHeartbeats(milliseconds(1000), milliseconds(10'000)).ok());
  for (const int timeout : {10, 1000}) {
    const Status status = CheckHeartbeats(milliseconds(1000), milliseconds(timeout));
    EXPECT_EQ(status.kind(), ErrorKind::kBadInput);
    EXPECT_THAT(status.message(), HasSubstr("(1 s), or every node counts as lost"));
  }
}

TEST(DriverMessagesTest, AnErrorNeverRepeatsTheToken) {
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

}  // namespace
}  // namespace tfos::control
