#include "control/coordinator/history/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/messages/parts/metric_names.h"

namespace tfos::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Le;

constexpr milliseconds kSecond(1000);

json Read(const History& history, const std::vector<int>& nodes = {},
          History::Range range = History::Range::kRecent) {
  return json::parse("{" + history.Json(range, nodes) + "}");
}

TEST(HistoryTest, TellsValuesOfNodesAndOfAll) {
  History history(3, kSecond);
  history.Update(0, {{"loss", 1.0}, {"phase", "warm"}});
  history.Update(1, {{"loss", 3.0}});
  history.Sample(milliseconds(0));
  history.Update(1, {{"loss", 2.0}});
  history.Sample(kSecond);
  const json read = Read(history, {1, 2});
  EXPECT_THAT(read["times"], ElementsAre(0, 1000));
  const json& loss = read["series"]["loss"];
  EXPECT_EQ(loss["kind"], "value");
  EXPECT_THAT(loss["mean"], ElementsAre(2, 1.5));
  EXPECT_THAT(loss["min"], ElementsAre(1, 1));
  EXPECT_THAT(loss["max"], ElementsAre(3, 2));
  EXPECT_THAT(loss["sum"], ElementsAre(4, 3));
  EXPECT_THAT(loss["nodes"]["1"], ElementsAre(3, 2));
  EXPECT_EQ(loss["nodes"].size(), 1u);  // node 2 has reported none
  EXPECT_FALSE(read["series"].contains("phase"));
}

TEST(HistoryTest, TheUsageOfGpusIsGoneOnceAHeartbeatLeavesItOut) {
  History history(2, kSecond);
  history.Update(0, {{"gpu_utilization", 0.5}, {"loss", 1.0}});
  history.Update(1, {{"gpu_utilization", 1.0}, {"loss", 1.0}});
  history.Sample(milliseconds(0));
  history.Update(0, {});
  history.Sample(kSecond);
  const json series = Read(history, {0})["series"];
  EXPECT_EQ(series["gpu_utilization"]["source"], "tfos");
  EXPECT_THAT(series["gpu_utilization"]["mean"], ElementsAre(0.75, 1));
  EXPECT_THAT(series["gpu_utilization"]["nodes"]["0"], ElementsAre(0.5, nullptr));
  EXPECT_THAT(series["loss"]["mean"], ElementsAre(1, 1));
}

TEST(HistoryTest, ANodeThatGivesNoSignOfLifeHasNoRatesOfItsOwn) {
  History history(2, kSecond);
  history.Update(0, {{"share_waiting_for_nodes", 0.5}, {"rss_bytes", 1.0}});
  history.Update(1, {{"share_waiting_for_nodes", 1.0}, {"rss_bytes", 1.0}});
  history.Sample(milliseconds(0));
  history.Update(0, {{"seconds_without_answer", std::int64_t{2}}});
  history.Sample(kSecond);
  const json series = Read(history, {0})["series"];
  EXPECT_THAT(series["share_waiting_for_nodes"]["nodes"]["0"], ElementsAre(0.5, nullptr));
  EXPECT_THAT(series["share_waiting_for_nodes"]["mean"], ElementsAre(0.75, 1));
  EXPECT_THAT(series["rss_bytes"]["mean"], ElementsAre(1, 1));
}

TEST(HistoryTest, TellsCountersAsWhatTheyGrewBy) {
  History history(2, kSecond);
  for (int i = 0; i < 10; ++i) {
    history.Update(0, {{"rows", std::int64_t{100} * i}});
    history.Update(1, {{"rows", std::int64_t{300} * i}});
    history.Sample(i * kSecond);
  }
  const json rows = Read(history, {0})["series"]["rows"];
  EXPECT_EQ(rows["kind"], "rate");
  EXPECT_EQ(rows["mean"][0], nullptr);
  EXPECT_EQ(rows["mean"][9], 200);
  EXPECT_EQ(rows["sum"][9], 400);
  EXPECT_EQ(rows["nodes"]["0"][9], 100);
  EXPECT_EQ(history.Rate("rows", 1), 300);
  EXPECT_EQ(history.Rate("rows", 2), std::nullopt);
  EXPECT_EQ(history.Rate("step", 0), std::nullopt);
}

TEST(HistoryTest, LargeCountersHaveRatesAsSmallOnes) {
  History history(1, kSecond);
  for (int i = 0; i < 10; ++i) {
    history.Update(0, {{"step", std::int64_t{200'000'000} + 3 * i}});
    history.Sample(i * kSecond);
  }
  EXPECT_NEAR(history.Rate("step", 0).value(), 3.0, 1e-3);
}

TEST(HistoryTest, ACounterThatBeginsAnewHasNoRateForAMoment) {
  History history(1, kSecond);
  history.Update(0, {{"step", std::int64_t{50}}});
  history.Sample(milliseconds(0));
  history.Update(0, {{"step", std::int64_t{1}}});
  history.Sample(kSecond);
  EXPECT_EQ(Read(history)["series"]["step"]["mean"][1], nullptr);
}

/// Heartbeats and samples have clocks of their own: now none, now two come between two samples.
TEST(HistoryTest, RatesDoNotShowWhenHeartbeatsCome) {
  History history(1, kSecond);
  std::int64_t rows = 0;
  for (int i = 0; i < 30; ++i) {
    if (i % 2 == 0) history.Update(0, {{"rows", rows += 200}});
    history.Sample(i * kSecond);
  }
  const json rates = Read(history)["series"]["rows"]["mean"];
  for (std::size_t i = 6; i < rates.size(); ++i) {
    EXPECT_NEAR(rates[i].get<double>(), 100, 21) << i;
  }
}

TEST(HistoryTest, ANodeThatHasEndedCountsOnceMoreAndThenNoLonger) {
  History history(3, kSecond);
  for (int i = 0; i < 4; ++i) {
    history.Update(0, {{"loss", 0.1}, {"rows", std::int64_t{100} * i}});
    history.Update(1, {{"loss", 5.0}, {"rows", std::int64_t{300} * i}});
    if (i == 2) history.EndNode(1);
    history.Sample(i * kSecond);
  }
  history.EndNode(2);  // It has reported nothing.
  history.EndNode(-1);
  history.EndNode(3);
  for (const auto range : {History::Range::kRecent, History::Range::kWhole}) {
    const json series = Read(history, {0, 1}, range)["series"];
    const json& loss = series["loss"];
    EXPECT_THAT(loss["max"], ElementsAre(5, 5, 5, 0.1));
    EXPECT_THAT(loss["mean"], ElementsAre(2.55, 2.55, 2.55, 0.1));
    EXPECT_THAT(loss["nodes"]["1"], ElementsAre(5, 5, 5, nullptr));
    EXPECT_THAT(series["rows"]["sum"], ElementsAre(nullptr, 400, 400, 100));
    EXPECT_THAT(series["rows"]["nodes"]["1"], ElementsAre(nullptr, 300, 300, nullptr));
  }
}

TEST(HistoryTest, ASampleAtOnceEndsTheCurvesWithTheLatestValues) {
  History history(2, kSecond);
  const auto report = [&](int node, double loss, std::int64_t rows) {
    history.Update(node, {{"loss", loss}, {"rows", rows}});
  };
  for (int i = 0; i < 3; ++i) {
    for (const int node : {0, 1}) report(node, 5, 100 * i);
    if (i == 1) history.EndNode(1);
    history.Sample(i * kSecond);
  }
  report(0, 4, 300);
  history.SampleAtOnce(2 * kSecond + kSecond / 2);
  for (const auto range : {History::Range::kRecent, History::Range::kWhole}) {
    const json read = Read(history, {0, 1}, range);
    EXPECT_THAT(read["times"], ElementsAre(0, 1000, 2500));
    EXPECT_THAT(read["series"]["loss"]["nodes"]["0"], ElementsAre(5, 5, 4));
    EXPECT_THAT(read["series"]["loss"]["nodes"]["1"], ElementsAre(5, 5, nullptr));
    // No rate is that of a short while.
    EXPECT_THAT(read["series"]["rows"]["nodes"]["0"], ElementsAre(nullptr, 100, 120));
  }
}

TEST(HistoryTest, ANodeThatComesInPlaceOfALostOneGoesOnWithItsCurve) {
  History history(1, kSecond);
  for (int i = 0; i < 5; ++i) {
    if (i == 1) history.EndNode(0);
    if (i == 3) history.BeginNode(0);
    history.Update(0, {{"loss", 1.0 * i}});
    history.Sample(i * kSecond);
  }
  history.BeginNode(-1);
  history.BeginNode(1);
  EXPECT_THAT(Read(history, {0})["series"]["loss"]["nodes"]["0"], ElementsAre(0, 0, nullptr, 3, 4));
}

/// A node reports its last values and ends between two moments of the whole run, which are far
/// apart by then.
TEST(HistoryTest, EachRangeHasTheLastWordOfANode) {
  History history(2, kSecond);
  int i = 0;
  const auto pass = [&] { history.Sample(i++ * kSecond); };
  history.Update(0, {{"loss", 0.5}});
  while (i < 1000) pass();
  history.Update(1, {{"loss", 7.0}});
  history.EndNode(1);
  for (int more = 0; more < 10; ++more) pass();
  for (const auto range : {History::Range::kRecent, History::Range::kWhole}) {
    const json own = Read(history, {1}, range)["series"]["loss"]["nodes"]["1"];
    EXPECT_EQ(std::count(own.begin(), own.end(), json(7.0)), 1);
    EXPECT_EQ(own.back(), nullptr);
  }
}

TEST(HistoryTest, SaysWhoseANameIsAndKeepsNoCurvesOfTheLedger) {
  History history(1, kSecond);
  history.Update(0, {{"feed_queued_bytes", std::int64_t{1}},
                     {"parameter_bytes_sent", std::int64_t{1}},
                     {"rows_seen", std::int64_t{1}},
                     {"rows_dropped", std::int64_t{1}},
                     {"items_unread", std::int64_t{1}}});
  history.Sample(milliseconds(0));
  const json series = Read(history)["series"];
  EXPECT_EQ(series.size(), 3u);
  EXPECT_EQ(series["feed_queued_bytes"]["source"], "tfos");
  EXPECT_EQ(series["feed_queued_bytes"]["kind"], "value");
  EXPECT_EQ(series["parameter_bytes_sent"]["kind"], "rate");
  EXPECT_EQ(series["rows_seen"]["source"], "program");
  EXPECT_EQ(series["rows_seen"]["kind"], "value");
}

TEST(HistoryTest, TheWholeRunKeepsItsRatesThroughHalving) {
  History history(1, kSecond);
  for (int i = 0; i < 7200; ++i) {
    history.Update(0, {{"rows", std::int64_t{100} * i}});
    history.Sample(i * kSecond);
  }
  const json read = Read(history, {}, History::Range::kWhole);
  EXPECT_LT(read["times"][0].get<int>(), 40'000);
  EXPECT_GT(read["times"].back().get<int>(), 7'100'000);
  EXPECT_THAT(read["times"].size(), Le(360u));
  json rates = read["series"]["rows"]["mean"];
  rates.erase(0);
  EXPECT_THAT(rates, Each(100));
}

TEST(HistoryTest, NamesHaveABound) {
  History history(1, kSecond);
  for (int i = 0; i < 1000; ++i) history.Update(0, {{"made_up_" + std::to_string(i), 1.0}});
  history.Sample(milliseconds(0));
  EXPECT_EQ(Read(history)["series"].size(), History::kMostNames);
}

TEST(HistoryTest, NamesOfAProgramPushOutNoneOfTfos) {
  History history(1, kSecond);
  for (int i = 0; i < 7; ++i) {
    // In the order of the alphabet they come first.
    for (int layer = 0; layer < 100; ++layer) {
      history.Update(0, {{"grad_norm_" + std::to_string(layer), 1.0}});
    }
    history.Update(0, {{"loss", 0.5}, {"step", std::int64_t{3} * i}});
    history.Sample(i * kSecond);
  }
  EXPECT_EQ(history.Rate("step", 0), 3);
  const json series = Read(history)["series"];
  EXPECT_TRUE(series.contains("loss"));
  EXPECT_EQ(series.size(), History::kMostNames + 2);
}

/// docs/page.md has the memory that they take.
TEST(HistoryTest, ThereAreAtMost60Names) {
  const auto of_tfos = std::ranges::count_if(kKnownMetrics, &KnownMetric::has_curve);
  EXPECT_LE(static_cast<std::size_t>(of_tfos) + History::kMostNames + 1, 60u);
}

TEST(HistoryTest, ALargeClusterHasFewerMomentsAndCoversAsLong) {
  History history(1000, kSecond);
  for (int i = 0; i < 3600; ++i) {
    history.Update(i % 1000, {{"loss", 1.0}});
    history.Sample(i * kSecond);
  }
  const json recent = Read(history);
  EXPECT_THAT(recent["times"].size(), Le(96u));
  const int covered = recent["times"].back().get<int>() - recent["times"][0].get<int>();
  EXPECT_THAT(covered, Gt(300'000));
}

TEST(HistoryTest, NamesOfProgramsAndNodesThatAreNoneDoNoHarm) {
  History history(1, kSecond);
  history.Update(0, {{"a\"}\n\xff", 1.0}});
  history.Update(7, {{"loss", 1.0}});
  history.Update(-1, {{"loss", 1.0}});
  history.Sample(milliseconds(0));
  EXPECT_EQ(Read(history, {7, -1})["series"].size(), 1u);
}

}  // namespace
}  // namespace tfos::control
