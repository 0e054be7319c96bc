#include "feed/feeder/feed_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tfos::feed {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

const std::string kKey(64, 'f');

/// A plan with a node for each of `executors`.
Json PlanOf(std::string_view executors) {
  Json plan = {{"feed_key", kKey},
               {"ask_key", kKey},
               {"encrypt", "auto"},
               {"pickle", true},
               {"job_id", "000102030405060708090a0b0c0d0eff"},
               {"queue", "rows"},
               {"epoch", 7},
               {"timeout", 1.5},
               {"answer_timeout", 0},
               {"region_bytes", 1 << 20},
               {"cache", "disk"},
               {"replays", 3},
               {"shuffle_seed", (1ULL << 61) + 1},
               {"until_read", true},
               {"check_retries", true},
               {"bears_losses", true},
               {"repeats", true},
               {"trained", {{"4", {{0, 16, 7, true}, {16, 20, 8, false}}}, {"5", nullptr}}},
               {"coordinator", {"host", 1}},
               {"endpoints", Json::array()}};
  for (std::uint32_t node = 0; node < executors.size(); ++node) {
    plan["endpoints"].push_back({{"node_id", node},
                                 {"socket", "tfos-x"},
                                 {"address", "10.0.0.1"},
                                 {"port", 4000 + node},
                                 {"executor_id", std::string(1, executors[node])}});
  }
  return plan;
}

FeedTask Task(Mode mode) {
  FeedTask task;
  task.mode = mode;
  return task;
}

std::vector<std::uint32_t> NodesOf(const Json& plan, std::string executor,
                                   std::uint32_t partition) {
  FeedTask task = Task(Mode::kTrain);
  task.executor_id = std::move(executor);
  task.partition = partition;
  const Result<PartitionWriterOptions> options = ReadFeedPlan(plan.dump(), task);
  EXPECT_TRUE(options.ok()) << options.status().DebugString();
  std::vector<std::uint32_t> nodes;
  if (options.ok()) {
    for (const Endpoint& endpoint : options->endpoints) nodes.push_back(endpoint.node_id);
  }
  return nodes;
}

TEST(FeedPlanTest, ReadsAllOfIt) {
  const auto options = ReadFeedPlan(
      PlanOf("a").dump(), {.executor_id = "a", .partition = 4, .attempt = 2, .mode = Mode::kTrain});
  ASSERT_TRUE(options.ok()) << options.status().DebugString();
  EXPECT_EQ(options->key.ToHex(), kKey);
  EXPECT_EQ(options->progress_timeout, 1500ms);
  const SessionOptions& session = options->session;
  EXPECT_EQ(session.queue, "rows");
  EXPECT_EQ(session.key.epoch, 7u);
  EXPECT_EQ(session.key.partition, 4u);
  EXPECT_EQ(session.key.job[1], 1u);
  EXPECT_EQ(session.key.job[15], 255u);
  EXPECT_EQ(session.attempt, 2u);
  EXPECT_EQ(session.region_bytes, 1u << 20);
  EXPECT_EQ(session.replay, (ReplayOptions{CachePlace::kDisk, 3, (1ULL << 61) + 1}));
  EXPECT_TRUE(session.until_read);
  EXPECT_TRUE(options->check_retries);
  EXPECT_TRUE(options->bears_losses);
  EXPECT_TRUE(options->repeats);
  ASSERT_EQ(options->trained.size(), 2u) << "of this partition";
  EXPECT_EQ(options->trained[0].chunk, (AcceptedChunk{.items = {0, 16}, .checksum = 7}));
  EXPECT_TRUE(options->trained[0].whole);
  EXPECT_FALSE(options->trained[1].whole);
  EXPECT_TRUE(options->session.without_trained);
  ASSERT_EQ(options->endpoints.size(), 1u);
  EXPECT_EQ(options->endpoints[0].unix_name, "tfos-x");
  EXPECT_EQ(options->endpoints[0].host, "10.0.0.1");
  EXPECT_EQ(options->endpoints[0].port, 4000);
}

TEST(FeedPlanTest, ATimeoutBeyondTheClockIsTheLongestThereIs) {
  Json plan = PlanOf("a");
  plan["timeout"] = 1e300;
  const auto options = ReadFeedPlan(plan.dump(), Task(Mode::kTrain));
  ASSERT_TRUE(options.ok()) << options.status().DebugString();
  EXPECT_GT(options->progress_timeout, std::chrono::years(200));
}

TEST(FeedPlanTest, InferenceIsAnsweredAnyway) {
  const auto options = ReadFeedPlan(PlanOf("a").dump(), Task(Mode::kInference));
  ASSERT_TRUE(options.ok());
  EXPECT_FALSE(options->session.until_read);
}

TEST(FeedPlanTest, TheExecutorsOwnNodesComeFirst) {
  for (std::uint32_t partition = 0; partition < 5; ++partition) {
    const std::vector<std::uint32_t> nodes = NodesOf(PlanOf("baba"), "a", partition);
    ASSERT_EQ(nodes.size(), 4u);
    EXPECT_EQ(std::set(nodes.begin(), nodes.begin() + 2), (std::set<std::uint32_t>{1, 3}));
  }
}

// What one of two executors gets when Spark deals partitions in turn.
TEST(FeedPlanTest, EverySecondPartitionStillBeginsWithEveryNode) {
  for (const char* executor : {"a", "b"}) {
    int with_first_node = 0;
    for (std::uint32_t partition = 0; partition < 200; partition += 2) {
      const std::vector<std::uint32_t> nodes = NodesOf(PlanOf("aa"), executor, partition);
      if (nodes.front() == 0) ++with_first_node;
    }
    EXPECT_GE(with_first_node, 35);
    EXPECT_LE(with_first_node, 65);
  }
}

TEST(FeedPlanTest, TheTimeToConnectIsBoundedByTheTimeInWhichNodesAnswer) {
  Json plan = PlanOf("a");
  const auto time_to_connect = [&plan](double timeout, double answer_timeout) {
    plan["timeout"] = timeout;
    plan["answer_timeout"] = answer_timeout;
    const auto options = ReadFeedPlan(plan.dump(), Task(Mode::kTrain));
    return options.ok() ? options->connect_timeout : -1ms;
  };
  EXPECT_EQ(time_to_connect(7200, 30), 40s) << "their agents come first";
  EXPECT_EQ(time_to_connect(7200, 0), 7200s);
  EXPECT_EQ(time_to_connect(1.5, 30), 1500ms);
  EXPECT_EQ(time_to_connect(1.5, 1e300), 1500ms);
}

TEST(FeedPlanTest, SaysWhatIsWrongWithoutTheToken) {
  const auto refused = [](const Json& plan) {
    const auto options = ReadFeedPlan(plan.dump(), {});
    EXPECT_FALSE(options.ok());
    return options.ok() ? std::string() : options.status().ToString();
  };
  for (const char* name :
       {"feed_key", "encrypt", "pickle", "job_id", "queue", "epoch", "timeout", "answer_timeout",
        "region_bytes", "cache", "replays", "shuffle_seed", "until_read", "check_retries",
        "bears_losses", "repeats", "trained", "endpoints"}) {
    Json plan = PlanOf("a");
    plan.erase(name);
    EXPECT_THAT(refused(plan), HasSubstr(name));
    plan[name] = name == std::string("trained") ? Json::array() : Json::object();
    EXPECT_THAT(refused(plan), HasSubstr(name));
  }
  Json plan = PlanOf("a");
  plan["cache"] = "tape";
  EXPECT_THAT(refused(plan), HasSubstr("'tape'"));
  plan = PlanOf("a");
  plan["job_id"] = "00";
  EXPECT_THAT(refused(plan), HasSubstr("2 hexadecimal digits instead of 32"));
  plan = PlanOf("a");
  plan["endpoints"][0]["port"] = 70000;
  EXPECT_THAT(refused(plan), HasSubstr("'port'"));
  for (const char* chunk : {"7", "[0, 1, 2]", "[-1, 1, 2, true]", "[0, 1, 4294967296, true]",
                            "[0, 1, 2, 3]", "[1, 1, 2, true]"}) {
    plan = PlanOf("a");
    plan["trained"] = {{"0", Json::array({Json::parse(chunk)})}};
    EXPECT_THAT(refused(plan), HasSubstr("'trained'")) << chunk;
  }
  plan = PlanOf("a");
  plan["check_retries"] = false;
  plan["trained"] = {{"0", Json::array({Json::parse("[0, 1, 2, true]")})}};
  EXPECT_THAT(refused(plan), HasSubstr("compares nothing"));
  const std::string cut = PlanOf("a").dump().substr(0, 300);
  const auto options = ReadFeedPlan(cut, {});
  ASSERT_FALSE(options.ok());
  EXPECT_THAT(options.status().DebugString(), Not(HasSubstr("ffff")));
}

}  // namespace
}  // namespace tfos::feed
