#include "control/coordinator/metrics_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/format.h"

namespace tfos::control {
namespace {

TEST(MetricsTextTest, GroupsSamplesByMetricAndLeavesTextsOut) {
  ClusterStatus status;
  status.nodes.resize(2);
  for (int i = 0; i < 2; ++i) {
    NodeInfo& node = status.nodes[static_cast<std::size_t>(i)];
    node.node_id = i;
    node.job_name = "wor\"ker";
    node.task_index = 10 + i;
    node.host = "host-a";
    node.state = NodeState::kRunning;
    status.metrics[std::to_string(i)] = {
        {"queue depth", std::int64_t{i}}, {"loss", 0.5}, {"phase", std::string("train")}};
  }
  EXPECT_EQ(MetricsText(status),
            "# HELP tfos_nodes nodes of the cluster in each state\n"
            "# TYPE tfos_nodes gauge\n"
            "tfos_nodes{state=\"expected\"} 0\n"
            "tfos_nodes{state=\"starting\"} 0\n"
            "tfos_nodes{state=\"registered\"} 0\n"
            "tfos_nodes{state=\"running\"} 2\n"
            "tfos_nodes{state=\"draining\"} 0\n"
            "tfos_nodes{state=\"done\"} 0\n"
            "tfos_nodes{state=\"failed\"} 0\n"
            "tfos_nodes{state=\"lost\"} 0\n"
            "tfos_nodes{state=\"stopped\"} 0\n"
            "# TYPE tfos_node_loss gauge\n"
            "tfos_node_loss{node=\"0\",job=\"wor\\\"ker\",task=\"10\",host=\"host-a\"} 0.5\n"
            "tfos_node_loss{node=\"1\",job=\"wor\\\"ker\",task=\"11\",host=\"host-a\"} 0.5\n"
            "# TYPE tfos_node_queue_depth gauge\n"
            "tfos_node_queue_depth{node=\"0\",job=\"wor\\\"ker\",task=\"10\",host=\"host-a\"} 0\n"
            "tfos_node_queue_depth{node=\"1\",job=\"wor\\\"ker\",task=\"11\",host=\"host-a\"} 1\n");
}

TEST(MetricsTextTest, SaysWhatIsCountedAndWhatANameMeans) {
  ClusterStatus status;
  status.nodes.resize(1);
  status.metrics["0"] = {{"rows", std::int64_t{1}}, {"rss_bytes", std::int64_t{2}}, {"lr", 0.5}};
  EXPECT_THAT(
      MetricsText(status),
      testing::EndsWith("} 0\n"
                        "# TYPE tfos_node_lr gauge\n"
                        "tfos_node_lr{node=\"0\",job=\"\",task=\"0\",host=\"\"} 0.5\n"
                        "# HELP tfos_node_rows rows that the program has read\n"
                        "# TYPE tfos_node_rows counter\n"
                        "tfos_node_rows{node=\"0\",job=\"\",task=\"0\",host=\"\"} 1\n"
                        "# HELP tfos_node_rss_bytes resident bytes of the node's process\n"
                        "# TYPE tfos_node_rss_bytes gauge\n"
                        "tfos_node_rss_bytes{node=\"0\",job=\"\",task=\"0\",host=\"\"} 2\n"));
}

TEST(MetricsTextTest, OfANodeThatHasEndedOnlyWhatItHasCountedStays) {
  ClusterStatus status;
  status.nodes.resize(kNodeStates);
  for (std::size_t i = 0; i < kNodeStates; ++i) {
    status.nodes[i].node_id = static_cast<int>(i);
    status.nodes[i].state = static_cast<NodeState>(i);
    status.metrics[std::to_string(i)] = {
        {"rows", std::int64_t{9}}, {"rss_bytes", std::int64_t{9}}, {"loss", 0.5}};
  }
  const std::string text = MetricsText(status);
  for (std::size_t i = 0; i < kNodeStates; ++i) {
    const auto has = [&](std::string_view name) {
      return text.find(fmt::format("tfos_node_{}{{node=\"{}\"", name, i)) != std::string::npos;
    };
    const bool ended = IsFinal(static_cast<NodeState>(i));
    EXPECT_TRUE(has("rows")) << i;
    EXPECT_EQ(has("rss_bytes"), !ended) << i;
    EXPECT_EQ(has("loss"), !ended) << i;
  }
}

TEST(MetricsTextTest, ALossThatIsNoFiniteNumberHasASample) {
  ClusterStatus status;
  status.nodes.resize(1);
  status.metrics["0"] = {{"a", "nan"}, {"b", "inf"}, {"c", "-inf"}, {"d", "unknown"}};
  const std::string text = MetricsText(status);
  const std::string labels = R"({node="0",job="",task="0",host=""})";
  for (std::string sample : {"a# NaN\n", "b# +Inf\n", "c# -Inf\n"}) {
    EXPECT_THAT(text, testing::HasSubstr("tfos_node_" + sample.replace(1, 1, labels)));
  }
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("tfos_node_d")));
}

TEST(MetricsTextTest, ACheckpointThatFailedInTheLastMomentIsSeenLater) {
  ClusterStatus status;
  status.nodes.resize(1);
  status.nodes[0].state = NodeState::kDone;
  status.metrics["0"] = {{"checkpoint_failures", std::int64_t{1}},
                         {"checkpoints", std::int64_t{4}}};
  const std::string text = MetricsText(status);
  EXPECT_THAT(text, testing::HasSubstr("# TYPE tfos_node_checkpoint_failures counter\n"));
  EXPECT_THAT(text, testing::HasSubstr("# TYPE tfos_node_checkpoints counter\n"));
}

TEST(MetricsTextTest, ANodeHasNoSampleTwice) {
  ClusterStatus status;
  status.nodes.resize(1);
  status.nodes[0].job_name = "a\nb";
  status.metrics["0"] = {{"a b", std::int64_t{1}}, {"a-b", std::int64_t{2}}, {"a_b", 3.0}};
  EXPECT_THAT(MetricsText(status),
              testing::EndsWith("} 0\n"
                                "# TYPE tfos_node_a_b gauge\n"
                                "tfos_node_a_b{node=\"0\",job=\"a\\nb\",task=\"0\","
                                "host=\"\"} 1\n"));
}

TEST(MetricsTextTest, NoNumberOfAProgramTakesThePlaceOfOneOfTfos) {
  ClusterStatus status;
  status.nodes.resize(1);
  status.metrics["0"] = {{"gpu/utilization", 97.0}, {"gpu_utilization", 0.97}, {"rss-bytes", 8.0}};
  const std::string text = MetricsText(status);
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("rss")));
  EXPECT_THAT(text, testing::EndsWith("GPUs compute, their mean\n"
                                      "# TYPE tfos_node_gpu_utilization gauge\n"
                                      "tfos_node_gpu_utilization{node=\"0\",job=\"\",task=\"0\","
                                      "host=\"\"} 0.97\n"));
}

}  // namespace
}  // namespace tfos::control
