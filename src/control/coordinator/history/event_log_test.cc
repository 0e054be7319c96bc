#include "control/coordinator/history/event_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tfos::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

TEST(EventLogTest, TellsWhatCameSince) {
  EventLog log;
  log.Add(milliseconds(1), -1, "formed");
  log.Add(milliseconds(2), 1, "worker:0 running");
  EXPECT_EQ(log.count(), 2);
  EXPECT_EQ(json::parse(log.Json(0)).size(), 2u);
  const json news = json::parse(log.Json(1));
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0], json({{"time_ms", 2}, {"node_id", 1}, {"text", "worker:0 running"}}));
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
  EXPECT_EQ(log.count(), 1);
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
  EXPECT_EQ(log.count(), 1);
  node.state = NodeState::kLost;
  node.detail = "its executor is gone";
  log.AddState(milliseconds(2), node);
  EXPECT_EQ(log.count(), 2);
  EXPECT_EQ(json::parse(log.Json(1))[0]["text"], "worker:0 lost: its executor is gone");
  // Another one comes in its place.
  node.state = NodeState::kRunning;
  node.detail = "";
  log.AddState(milliseconds(3), node);
  EXPECT_EQ(log.count(), 3);
}

TEST(EventLogTest, ForgetsTheOldestAndKeepsCounting) {
  EventLog log;
  const int all = static_cast<int>(EventLog::kMostEvents) + 10;
  for (int i = 0; i < all; ++i) log.Add(milliseconds(i), -1, std::to_string(i));
  EXPECT_EQ(log.count(), all);
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
