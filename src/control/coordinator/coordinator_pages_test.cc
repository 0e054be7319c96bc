#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "control/coordinator/coordinator_fixture.h"

namespace tfos::control {
namespace {

/// Status line and headers away.
json BodyOf(const std::string& answer) {
  return json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
}

class CoordinatorPagesTest : public CoordinatorTest {
 protected:
  /// Starts a cluster whose worker has reported a loss of 0.25, of which there is a sample. From
  /// then on the clock stands still, so no other sample is taken.
  void Train() {
    Start();
    ps_.emplace(Agent(0));
    worker_.emplace(Agent(1));
    ASSERT_FALSE(WaitFor("formed").is_null());
    worker_->SendText(R"({"type":"state","state":"running","detail":"","pid":1,"feed":null})");
    ReportLoss(0.25);
    clock_.Advance(std::chrono::seconds(1));
    AskUntil([](const json& history) { return history["times"].dump().ends_with("1000]"); });
  }

  json AskUntil(const std::function<bool(const json& history)>& is_so) const {
    json history;
    const Deadline deadline = Deadline::After(kPatience);
    do {
      history = BodyOf(Get("/v1/history?nodes=1"));
    } while (!is_so(history) && !deadline.passed());
    return history;
  }

  /// Has the worker report it, and waits until the coordinator knows it.
  void ReportLoss(double loss) {
    worker_->SendText(json{{"type", "heartbeat"}, {"metrics", {{"loss", loss}}}}.dump());
    json told;
    do {
      told = WaitFor("metrics");
      ASSERT_FALSE(told.is_null());
    } while (told["nodes"].dump().find(json(loss).dump()) == std::string::npos);
  }

  std::string Get(const std::string& path) const {
    return RawClient(port_).Get(path, KeyOf(Purpose::kRead).ToHex());
  }

  std::optional<RawClient> ps_;
  std::optional<RawClient> worker_;
};

/// What the page of a report shows.
json RecordedIn(const std::string& report) {
  const std::string begin = R"(id="recorded">)";
  const std::size_t at = report.find(begin) + begin.size();
  return json::parse(report.substr(at, report.find("</script>", at) - at), nullptr, false);
}

TEST_F(CoordinatorPagesTest, ThePageAndItsDataShowHowTheRunHasGone) {
  ASSERT_NO_FATAL_FAILURE(Train());
  Tell({{"type", "activity"},
        {"doing", "feeding"},
        {"items_read", 7},
        {"items_moved", 0},
        {"unit", "rows"},
        {"cut_short", false}});
  const json history =
      AskUntil([](const json& so_far) { return so_far["activity"]["doing"] == "feeding"; });
  EXPECT_EQ(history["cluster_id"], "c1");
  EXPECT_EQ(history["activity"]["doing"], "feeding");
  EXPECT_EQ(history["series"]["loss"]["nodes"]["1"].back(), 0.25);
  EXPECT_THAT(history["events"].dump(), HasSubstr("the cluster has formed: 2 nodes"));

  EXPECT_THAT(RawClient(port_).Get("/"), HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(Get("/v1/history?range=all"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(RawClient(port_).Get("/page/none.js"), StartsWith("HTTP/1.1 404"));
  for (const char* closed : {"/v1/history", "/v1/report"}) {
    EXPECT_THAT(RawClient(port_).Get(closed), StartsWith("HTTP/1.1 401"));
  }
}

TEST_F(CoordinatorPagesTest, TheCurvesOfAReportEndWithTheNumbersOfItsState) {
  ASSERT_NO_FATAL_FAILURE(Train());
  ReportLoss(0.125);
  const std::string report = Get("/v1/report");
  EXPECT_THAT(report, HasSubstr("<!DOCTYPE html>"));
  const json recorded = RecordedIn(report);
  EXPECT_EQ(recorded["status"]["metrics"]["1"]["loss"], 0.125);
  EXPECT_EQ(recorded["status"]["progress"]["loss"], 0.125);
  for (const char* range : {"recent", "whole"}) {
    const json& loss = recorded[range]["series"]["loss"];
    EXPECT_EQ(loss["kind"], "value");
    EXPECT_EQ(loss["nodes"]["1"].back(), 0.125) << range;
    EXPECT_EQ(loss["mean"].back(), 0.125) << range;
    EXPECT_EQ(recorded[range]["times"].back(), recorded[range]["now_ms"]);
  }
}

// The pages tell how far the coordinator is while its driver reads nothing.
TEST_F(CoordinatorPagesTest, WhatALostNodeHasCountedStaysUntilTheDriverHearsOfAnother) {
  json start = StartMessage();
  start["roles"] = json::array({{{"job", "worker"}, {"count", 2}}});
  start["min_nodes"] = 1;
  start["late_nodes"] = true;
  Start(start);
  RawClient other = Agent(0);
  worker_.emplace(Agent(1));
  ASSERT_FALSE(WaitFor("formed").is_null());
  ASSERT_NO_FATAL_FAILURE(ReportLoss(0.25));
  const std::string more_than_a_pipe_takes(100'000, 'x');
  other.SendText(
      json{{"type", "state"}, {"state", "running"}, {"detail", more_than_a_pipe_takes}}.dump());
  const auto tell = [](const char* what) {
    return [what](const json& history) {
      return history["events"].dump().find(what) != std::string::npos;
    };
  };
  AskUntil(tell("worker:0 running"));
  clock_.Advance(std::chrono::seconds(1));
  AskUntil([](const json& history) { return history["times"].dump().ends_with("1000]"); });
  worker_->Close();
  AskUntil(tell("worker:1 lost"));
  RawClient again = Agent(1);
  EXPECT_EQ(Message(again)["type"], "start");
  bool is_lost = false;
  while (true) {
    const json event = NextEvent();
    ASSERT_FALSE(event.is_null());
    if (event["type"] == "metrics") {
      for (const json& of_node : event["nodes"]) {
        if (of_node["node_id"] == 1) {
          EXPECT_EQ(of_node["metrics"]["loss"], 0.25);
        }
      }
    } else if (event["type"] == "node" && event["node"]["node_id"] == 1) {
      if (is_lost) break;
      is_lost = event["node"]["state"] == "lost";
    }
  }
}

TEST_F(CoordinatorTest, AnOpenPageGetsTheLastStateBeforeTheEnd) {
  Start();
  const std::string key = KeyOf(Purpose::kRead).ToHex();
  RawClient page(port_);
  ASSERT_THAT(page.Get("/v1/status?page=a1", key), StartsWith("HTTP/1.1 200"));
  Tell({{"type", "fail"}, {"node", -1}, {"step", "launch"}, {"message", "no"}, {"traceback", ""}});
  Tell({{"type", "exit"}});
  ASSERT_FALSE(WaitFor("failed").is_null());
  // It ends when both were sent, which a clock that stands still can't be the reason of.
  EXPECT_EQ(BodyOf(page.Get("/v1/status?page=a1", key))["failure"]["step"], "launch");
  EXPECT_THAT(page.Get("/v1/history?page=a1", key), HasSubstr("the cluster has failed"));
  EXPECT_EQ(ExitCode(), 0);
}

TEST_F(CoordinatorTest, APageThatIsGoneHoldsUpTheEndForAShortTimeOnly) {
  Start();
  ASSERT_THAT(RawClient(port_).Get("/v1/status?page=a1", KeyOf(Purpose::kRead).ToHex()),
              StartsWith("HTTP/1.1 200"));
  Tell({{"type", "exit"}});
  EXPECT_EQ(ExitCode(), 0);
}

}  // namespace
}  // namespace tfos::control
