#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "control/coordinator/coordinator_fixture.h"

namespace tfos::control {
namespace {

/// Status line and headers away.
json BodyOf(const std::string& answer) {
  return json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
}

TEST_F(CoordinatorTest, ThePageAndItsDataShowHowTheRunHasGone) {
  Start();
  RawClient ps = Agent(0);
  RawClient worker = Agent(1);
  ASSERT_FALSE(WaitFor("formed").is_null());
  worker.SendText(R"({"type":"state","state":"running","detail":"","pid":1,"feed":null})");
  worker.SendText(R"({"type":"heartbeat","metrics":{"loss":0.25}})");
  Tell({{"type", "activity"},
        {"doing", "feeding"},
        {"items_read", 7},
        {"items_moved", 0},
        {"unit", "rows"},
        {"cut_short", false}});
  ASSERT_FALSE(WaitFor("metrics").is_null());
  const std::string key = KeyOf(Purpose::kRead).ToHex();
  json history;
  const Deadline deadline = Deadline::After(kPatience);
  do {
    clock_.Advance(std::chrono::seconds(1));
    history = BodyOf(RawClient(port_).Get("/v1/history?nodes=1", key));
    ASSERT_TRUE(history.is_object());
    // The first sample may be older than the heartbeat.
  } while (history["series"].dump().find("0.25") == std::string::npos && !deadline.passed());
  EXPECT_EQ(history["cluster_id"], "c1");
  EXPECT_EQ(history["activity"]["doing"], "feeding");
  EXPECT_EQ(history["series"]["loss"]["nodes"]["1"].back(), 0.25);
  EXPECT_THAT(history["events"].dump(), HasSubstr("the cluster has formed: 2 nodes"));

  EXPECT_THAT(RawClient(port_).Get("/"), HasSubstr("<!DOCTYPE html>"));
  const std::string report = RawClient(port_).Get("/v1/report", key);
  EXPECT_THAT(report, HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(report, HasSubstr(R"("loss":{"kind":"value")"));
  EXPECT_THAT(RawClient(port_).Get("/v1/history?range=all", key), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(RawClient(port_).Get("/page/none.js"), StartsWith("HTTP/1.1 404"));
  for (const char* closed : {"/v1/history", "/v1/report"}) {
    EXPECT_THAT(RawClient(port_).Get(closed), StartsWith("HTTP/1.1 401"));
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
