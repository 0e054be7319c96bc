#include "cli/operate/cluster_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tfos::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

json Status(int nodes) {
  json status = {{"cluster_id", "c1"},
                 {"nodes", json::array()},
                 {"metrics", json::object()},
                 {"rates", json::object()},
                 {"failure", nullptr}};
  for (int i = 0; i < nodes; ++i) {
    status["nodes"].push_back({{"node_id", i},
                               {"job_name", i == 0 ? "chief" : "worker"},
                               {"task_index", i == 0 ? 0 : i - 1},
                               {"state", "running"},
                               {"detail", ""},
                               {"host", "h"},
                               {"pid", 100 + i}});
  }
  return status;
}

TEST(ClusterViewTest, ShowsNodesWithTheirNumbers) {
  json status = Status(2);
  status["metrics"]["1"] = {{"step", 120}, {"rows", 15360}, {"rss_bytes", 1u << 30}};
  status["rates"]["1"] = {{"step", 2.25}, {"rows", 288.4}};
  status["nodes"][0]["detail"] = "moves\x1b[2J the cursor";
  const auto view = ClusterView::Parse(status.dump());
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->body(), status.dump());
  EXPECT_FALSE(view->has_failed());
  EXPECT_FALSE(view->has_ended());
  EXPECT_EQ(view->Table(),
            "cluster c1: running, 2 nodes\n"
            "node      host  pid  state    step  steps/s   rows  rows/s    memory  doing\n"
            "chief:0   h     100  running     -        -      -       -         -  moves [2J the "
            "cursor\n"
            "worker:0  h     101  running   120      2.2  15360     288  1.00 GiB\n");
}

TEST(ClusterViewTest, ShowsGpusWhereANodeHasSome) {
  json status = Status(2);
  status["metrics"]["1"] = {{"gpu_utilization", 0.755}, {"gpu_memory_bytes", 3u << 30}};
  EXPECT_EQ(
      ClusterView::Parse(status.dump())->Table(),
      "cluster c1: running, 2 nodes\n"
      "node      host  pid  state    step  steps/s  rows  rows/s  memory   GPU  GPU memory  "
      "doing\n"
      "chief:0   h     100  running     -        -     -       -       -     -           -\n"
      "worker:0  h     101  running     -        -     -       -       -  76 %    3.00 GiB\n");
  status["metrics"]["1"].erase("gpu_utilization");
  EXPECT_THAT(ClusterView::Parse(status.dump())->Table(),
              AllOf(HasSubstr("memory  GPU memory"), Not(HasSubstr(" %"))));
}

TEST(ClusterViewTest, ANodeThatHasEndedHoldsNoMemoryAndNoGpu) {
  json status = Status(2);
  for (const char* node : {"0", "1"}) {
    status["metrics"][node] = {{"step", 9},
                               {"rss_bytes", 1u << 30},
                               {"gpu_utilization", 0.97},
                               {"gpu_memory_bytes", 3u << 30}};
  }
  for (const char* state : {"done", "failed", "lost", "stopped"}) {
    status["nodes"][1]["state"] = state;
    const std::string table = ClusterView::Parse(status.dump())->Table();
    const std::string row = table.substr(table.find("worker:0"));
    EXPECT_THAT(row, AllOf(HasSubstr(state), HasSubstr(" 9 "))) << state;
    EXPECT_THAT(row, AllOf(Not(HasSubstr("GiB")), Not(HasSubstr("%")))) << state;
    EXPECT_THAT(table, HasSubstr("1.00 GiB  97 %    3.00 GiB\n")) << state;
  }
}

TEST(ClusterViewTest, SaysHowFarTheTrainingIs) {
  json status = Status(10);
  status["progress"] = {{"epoch", 2}, {"text", "epoch 2 of 5, 37 %\x1b[2J"}};
  const auto view = ClusterView::Parse(status.dump());
  EXPECT_THAT(view->Table(),
              HasSubstr("cluster c1: running, 10 nodes\nepoch 2 of 5, 37 % [2J\nnode "));
  const std::string table = view->Table(6);
  EXPECT_EQ(std::ranges::count(table, '\n'), 6);
  EXPECT_THAT(table, EndsWith("... and 8 more nodes\n"));
}

TEST(ClusterViewTest, HasTheNameOfTheApplication) {
  json status = Status(1);
  status["name"] = "my app\x1b[2J";
  EXPECT_THAT(ClusterView::Parse(status.dump())->Table(),
              StartsWith("cluster c1 (my app [2J): running, 1 node\n"));
}

TEST(ClusterViewTest, ANodeThatHasDivergedIsMarkedAsOnThePage) {
  json status = Status(3);
  status["metrics"]["0"] = {{"loss", "nan"}};
  status["metrics"]["1"] = {{"loss", 0.5}};
  status["metrics"]["2"] = {{"loss", "a text"}};
  const std::string table = ClusterView::Parse(status.dump())->Table();
  EXPECT_THAT(table, AllOf(HasSubstr("  running (loss nan)  "), Not(HasSubstr("(loss a"))));
  EXPECT_THAT(table, Not(HasSubstr("(loss 0")));
}

TEST(ClusterViewTest, LinesAreCutToTheScreen) {
  json status = Status(1);
  status["progress"] = {{"text", "\u00e9poque 1"}};
  EXPECT_EQ(ClusterView::Parse(status.dump())->Table(ClusterView::kAll, 7),
            "cluster\n\u00e9poque \nnode   \nchief:0\n");
}

TEST(ClusterViewTest, AScreenFullOfNodesIsCut) {
  const auto view = ClusterView::Parse(Status(10).dump());
  const std::string table = view->Table(6);
  EXPECT_EQ(std::ranges::count(table, '\n'), 6);
  EXPECT_THAT(table, EndsWith("... and 7 more nodes\n"));
  EXPECT_THAT(ClusterView::Parse(Status(1).dump())->Table(2), EndsWith("... and 1 more node\n"));
  EXPECT_THAT(view->Table(12), Not(HasSubstr("more nodes")));
}

TEST(ClusterViewTest, SaysHowItEnded) {
  json status = Status(1);
  status["nodes"][0]["state"] = "failed";
  status["nodes"][0]["pid"] = 0;
  EXPECT_THAT(ClusterView::Parse(status.dump())->Table(), HasSubstr("cluster c1: ended"));
  status["failure"] = {{"node_id", 0}, {"job_name", "chief"},       {"task_index", 0},
                       {"host", "h"},  {"step", "run the program"}, {"message", "ValueError: x"}};
  const auto view = ClusterView::Parse(status.dump());
  EXPECT_TRUE(view->has_failed());
  EXPECT_TRUE(view->has_ended());
  EXPECT_THAT(view->Table(), AllOf(HasSubstr("cluster c1: failed"), HasSubstr("ValueError: x")));
}

TEST(ClusterViewTest, FindsNodes) {
  const auto view = ClusterView::Parse(Status(12).dump());
  EXPECT_EQ(view->NodeNumber("worker:1").value(), 2);
  EXPECT_EQ(view->NodeNumber("3").value(), 3);
  const auto none = view->NodeNumber("ps:0");
  EXPECT_EQ(ExitCodeOf(none.status()), kUsage);
  EXPECT_THAT(none.status().ToString(), HasSubstr("it has chief:0, worker:0"));
}

TEST(ClusterViewTest, AnyAnswerIsRead) {
  const std::string text = Status(2).dump();
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto view = ClusterView::Parse(flipped);
    if (!view.ok()) continue;
    EXPECT_FALSE(view->Table().empty());
    EXPECT_FALSE(view->NodeNumber("x").ok());
  }
  for (const char* other : {"", "[]", "{}", R"({"nodes":[1]})", R"({"nodes":{}})"}) {
    EXPECT_FALSE(ClusterView::Parse(other).ok());
  }
}

}  // namespace
}  // namespace tfos::cli
