#include "control/coordinator/history/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tfos::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

TEST(EventLogTest, TellsWhatCameSince) {
  EventLog log;
  log.Add(milliseconds(1), -1, "formed");
  log.Add(milliseconds(2), 1, "worker:0 running");
  EXPECT_EQ(log.changes(), 2);
  EXPECT_EQ(json::parse(log.Json(0)).size(), 2u);
  const json news = json::parse(log.Json(1));
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0],
            json({{"number", 1}, {"time_ms", 2}, {"node_id", 1}, {"text", "worker:0 running"}}));
  EXPECT_EQ(log.Json(2), "[]");
  EXPECT_EQ(log.Json(99), "[]");
}

TEST(EventLogTest, AStateIsToldOnce) {
  EventLog log;
  NodeInfo node;
  node.node_id = 3;
  node.job_name = "worker";
  node.state = NodeState::kRunning;
  log.AddState(milliseconds(1), node);
  node.since_ms = milliseconds(50);
  log.AddState(milliseconds(2), node);
  EXPECT_EQ(log.changes(), 1);
  node.leaving = "its executor is decommissioned";
  log.AddState(milliseconds(3), node);
  EXPECT_EQ(json::parse(log.Json(1))[0]["text"],
            "worker:0 running (leaving: its executor is decommissioned)");
}

TEST(EventLogTest, WhatANodeDoesInAStateIsNoEvent) {
  EventLog log;
  NodeInfo node;
  node.job_name = "worker";
  node.state = NodeState::kRunning;
  for (const char* doing : {"", "importing TensorFlow", "", "first step (tracing)", ""}) {
    node.detail = doing;
    log.AddState(milliseconds(1), node);
  }
  EXPECT_EQ(log.changes(), 1);
  node.state = NodeState::kLost;
  node.detail = "its executor is gone";
  log.AddState(milliseconds(2), node);
  EXPECT_EQ(log.changes(), 2);
  EXPECT_EQ(json::parse(log.Json(1))[0]["text"], "worker:0 lost: its executor is gone");
  // Another one comes in its place.
  node.state = NodeState::kRunning;
  node.detail = "";
  log.AddState(milliseconds(3), node);
  EXPECT_EQ(log.changes(), 3);
}

TEST(EventLogTest, TheEpochsOfAQueueAreOneEventUntilSomethingElseHappens) {
  EventLog log;
  const auto texts = [&] {
    std::vector<std::string> all;
    for (const json& event : json::parse(log.Json(0))) all.push_back(event["text"]);
    return all;
  };
  log.AddEpoch(milliseconds(1), "input", 3);
  EXPECT_THAT(texts(), ElementsAre("epoch 3 of the queue 'input' was fed"));
  for (int epoch = 4; epoch <= 57; ++epoch) {
    log.AddEpoch(milliseconds(epoch), "input", epoch);
    log.AddEpoch(milliseconds(epoch), "validation", epoch);
  }
  EXPECT_THAT(texts(), ElementsAre("epochs 3 to 57 of the queue 'input' were fed",
                                   "epochs 4 to 57 of the queue 'validation' were fed"));
  log.Add(milliseconds(60), 1, "its loss is nan");
  log.AddEpoch(milliseconds(61), "input", 58);
  EXPECT_EQ(texts().size(), 4u);
  EXPECT_EQ(texts().back(), "epoch 58 of the queue 'input' was fed");
  log.AddEpoch(milliseconds(62), "input", 58);
  EXPECT_EQ(texts().size(), 5u) << "it was fed again";
}

TEST(EventLogTest, AnEventThatChangesIsToldAgainByItsNumber) {
  EventLog log;
  log.Add(milliseconds(1), -1, "formed");
  log.AddEpoch(milliseconds(2), "input", 1);
  const std::int64_t seen = log.changes();
  EXPECT_EQ(log.Json(seen), "[]");
  log.AddEpoch(milliseconds(3), "input", 2);
  const json news = json::parse(log.Json(seen));
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0]["number"], 1);
  EXPECT_EQ(news[0]["time_ms"], 3);
  EXPECT_EQ(json::parse(log.Json(0)).size(), 2u);
}

TEST(EventLogTest, EpochsPushOutNothing) {
  EventLog log;
  log.Add(milliseconds(0), 1, "its loss is nan");
  const int all = 2 * static_cast<int>(EventLog::kMostEvents);
  for (int epoch = 1; epoch <= all; ++epoch) log.AddEpoch(milliseconds(epoch), "input", epoch);
  const json kept = json::parse(log.Json(0));
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0]["text"], "its loss is nan");
}

TEST(EventLogTest, ForgetsTheOldestAndKeepsCounting) {
  EventLog log;
  const int all = static_cast<int>(EventLog::kMostEvents) + 10;
  for (int i = 0; i < all; ++i) log.Add(milliseconds(i), -1, std::to_string(i));
  EXPECT_EQ(log.changes(), all);
  const json kept = json::parse(log.Json(0));
  EXPECT_EQ(kept.size(), EventLog::kMostEvents);
  EXPECT_EQ(kept[0]["text"], "10");
  EXPECT_EQ(json::parse(log.Json(all - 1))[0]["text"], std::to_string(all - 1));
}

TEST(EventLogTest, ALongTextIsCut) {
  EventLog log;
  log.Add(milliseconds(0), -1,
          std::string(EventLog::kMostTextBytes - 1, 'x') + "\xc3\xa9 and more");
  const auto text = json::parse(log.Json(0))[0]["text"].get<std::string>();
  EXPECT_LT(text.size(), EventLog::kMostTextBytes + 10);
  EXPECT_TRUE(text.ends_with(" ..."));
}

}  // namespace
}  // namespace tfos::control
