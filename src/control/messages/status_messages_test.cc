#include "control/messages/status_messages.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tfos::control {
namespace {

using nlohmann::json;

TEST(StatusMessagesTest, SaysNodesAndMetricsByNode) {
  ClusterStatus status;
  status.cluster_id = "c";
  status.name = "app";
  status.nodes.resize(2);
  status.nodes[1].node_id = 1;
  status.nodes[1].state = NodeState::kRunning;
  status.metrics["1"] = {{"rows", std::int64_t{12}}, {"loss", 0.5}};
  status.metrics_before["1"] = {{"rows", std::int64_t{7}}};
  status.rates["1"] = {{"rows", 2.5}};
  status.progress.epoch = 3;
  status.stopped_by = "alice@host-a";
  const json written = json::parse(SerializeStatus(status));
  EXPECT_EQ(written["cluster_id"], "c");
  EXPECT_EQ(written["name"], "app");
  ASSERT_EQ(written["nodes"].size(), 2U);
  EXPECT_EQ(written["nodes"][1]["state"], "running");
  EXPECT_TRUE(written["nodes"][1]["feed"].is_null());
  EXPECT_EQ(written["metrics"], json({{"1", {{"rows", 12}, {"loss", 0.5}}}}));
  EXPECT_EQ(written["metrics_before"], json({{"1", {{"rows", 7}}}}));
  EXPECT_EQ(written["rates"], json({{"1", {{"rows", 2.5}}}}));
  EXPECT_EQ(written["progress"]["epoch"], 3);
  EXPECT_TRUE(written["progress"]["epochs"].is_null());
  EXPECT_EQ(written["stopped_by"], "alice@host-a");
  EXPECT_TRUE(written["failure"].is_null());
}

TEST(StatusMessagesTest, AFailureSaysWhoseItIsBesideWhatItSays) {
  Failure failure;
  failure.node_id = 3;
  failure.job_name = "worker";
  failure.report.message = "ValueError: x";
  failure.report.log_tail = {"a"};
  const json written = json::parse(SerializeFailure(failure));
  EXPECT_EQ(written["node_id"], 3);
  EXPECT_EQ(written["job_name"], "worker");
  EXPECT_EQ(written["message"], "ValueError: x");
  EXPECT_EQ(written["log_tail"], json({"a"}));
  EXPECT_EQ(written["lost"], false);
}

}  // namespace
}  // namespace tfos::control
