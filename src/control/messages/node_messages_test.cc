#include "control/messages/node_messages.h"

#include <limits>

#include "control/messages/message_test_suite.h"

namespace tfos::control {

template <>
std::vector<std::string> Examples<NodeCommand>() {
  return {
      R"({"type":"bootstrap","cluster_id":"c","encrypt":"true",
          "keys":{"feed":"TOKEN","tensors":"TOKEN","parameters":"TOKEN"},"node_id":0,"executor_id":"0",
          "job_name":"worker","task_index":0,"cluster_spec":{"worker":["a:1"]},"num_workers":1,
          "joins":true,"nodes":[NODE],"port":1,"port_fd":5,"tensor_port_fd":6,"address":"a",
          "bind_address":"0.0.0.0","host":"h","gpus":[],
          "gpu_fraction":0.0,"coordinator":{"address":"10.0.0.5","port":1},
          "heartbeat_interval_ms":1000,"node":{},"payload_bytes":3})",
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
      R"({"type":"stop","reason":"r","grace_ms":0})",
      R"({"type":"ping"})",
      R"({"type":"stacks","gentle":true})",
      R"({"type":"profile","time_ms":1000})",
  };
}

template <>
std::vector<std::string> Examples<NodeMessage>() {
  return {
      R"({"type":"state","state":"running","detail":"d","pid":0,
          "feed":{"socket":"s","port":1},"tensorboard":null})",
      R"({"type":"metrics","metrics":{"rows":1}})",
      R"({"type":"step_report","queue":"input","epoch":3,"full_batches":5,"ended":true,
          "batches":6,"rows":95,"passable_rows":40,"batch_rows":16,"made":4,"waits":true,"looked":7})",
      R"({"type":"ready","generation":2,"committed":17,"leaves":false,"reason":"r",
          "admits":true,"lacks":2})",
      R"({"type":"feed_terminated"})",
      R"({"type":"failed","failure":REPORT})",
      R"({"type":"done"})",
      R"({"type":"pong"})",
      R"({"type":"stacks","text":"Thread 1\n","gentle":true})",
      R"({"type":"profile","text":"{}","failed":true})",
  };
}

namespace {

using Directions = testing::Types<NodeCommand, NodeMessage>;
INSTANTIATE_TYPED_TEST_SUITE_P(Node, MessagesTest, Directions);

TEST(NodeMessagesTest, AMetricBeyondSignedIntegersIsTheNearestNumber) {
  const auto message = ParseMessage<NodeMessage>(
      R"({"type":"metrics","metrics":{"most":9223372036854775807,"seed":18446744073709551615}})");
  ASSERT_TRUE(message.ok()) << message.status().ToString();
  const Metrics& metrics = std::get<MetricsReport>(*message).metrics.kept;
  EXPECT_EQ(metrics.at("most"), MetricValue(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(metrics.at("seed"), MetricValue(18446744073709551615.0));
}

TEST(NodeMessagesTest, MetricsOfAProgramThatCannotBeCarriedAreDroppedAndNamed) {
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

TEST(NodeMessagesTest, MetricsBeyondTheMostAreDropped) {
  json message = {{"type", "metrics"}, {"metrics", json::object()}};
  for (int i = 0; i < 258; ++i) message["metrics"]["m" + std::to_string(i)] = i;
  const auto parsed = ParseMessage<NodeMessage>(message.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const ReportedMetrics& metrics = std::get<MetricsReport>(*parsed).metrics;
  EXPECT_EQ(metrics.kept.size(), 256u);
  EXPECT_EQ(metrics.dropped.size(), 2u);
}

}  // namespace
}  // namespace tfos::control
