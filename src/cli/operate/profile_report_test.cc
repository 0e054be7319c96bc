#include "cli/operate/profile_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

namespace tfos::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSite = "/venv/lib/python3.11/site-packages";

class ProfileReportTest : public ::testing::Test {
 protected:
  using Frame = StackProfile::Frame;

  static Frame Library(const std::string& name, const std::string& path) {
    return {.name = name, .file = kSite + path, .line = 7};
  }
  /// The outermost frame comes first.
  void Add(const std::string& thread, std::initializer_list<Frame> stack, std::int64_t us) {
    int call = builder_.CallOf(-1, builder_.FrameOf({.name = thread, .file = ""}));
    for (const Frame& frame : stack) call = builder_.CallOf(call, builder_.FrameOf(frame));
    builder_.AddTime(call, us);
  }
  std::string Tables() {
    builder_.profile().elapsed_us = 1'000'000;
    return ProfileTables(builder_.profile(), "worker:0");
  }

  const Frame main_{.name = "train", .file = "/home/me/models/prog.py", .line = 31};
  const Frame hot_{.name = "hot", .file = "/home/me/models/prog.py", .line = 12};
  const Frame fit_ = Library("fit", "/keras/src/backend/tensorflow/trainer.py");
  const Frame execute_ = Library("quick_execute", "/tensorflow/python/eager/execute.py");
  const Frame script_ops_ = Library("__call__", "/tensorflow/python/ops/script_ops.py");
  StackProfileBuilder builder_;
};

TEST_F(ProfileReportTest, OneThreadHasNoMoreThanAllOfTheTime) {
  Add("MainThread", {main_, hot_}, 1'001'000);
  builder_.profile().cpu_seconds = {{"tf_Compute", 1.5}};
  const std::string tables = Tables();
  EXPECT_THAT(tables, AllOf(HasSubstr(" 100.0 %"), HasSubstr(" 150.0 %"), Not(HasSubstr("100.1"))));
}

TEST_F(ProfileReportTest, WhatIsDoneIsToldByTheCodeThatCalls) {
  Add("MainThread", {main_, fit_, execute_}, 400'000);
  Add("MainThread", {main_, fit_}, 10'000);
  Add("MainThread", {main_, hot_, Library("dot", "/numpy/core.py")}, 200'000);
  Add("MainThread", {main_, Library("all_reduce", "/tfos/collective/__init__.py"), execute_},
      100'000);
  Add("MainThread", {main_, fit_, Library("next", "/tensorflow/python/data/ops/it.py"), execute_},
      90'000);
  Add("MainThread", {main_, fit_, Library("save", "/tfos/keras/checkpoint/saving.py"), execute_},
      80'000);
  Add("MainThread", {main_, Library("next_batch", "/tfos/feed/datafeed.py")}, 70'000);
  Add("MainThread",
      {main_, Library("trace", "/tensorflow/python/framework/func_graph.py"), hot_, execute_},
      30'000);
  Add("Thread-N", {hot_}, 1'000'000);
  builder_.profile().counters = {{"step", 4}, {"feed_node_wait_seconds", 0.25}};
  builder_.profile().cpu_seconds = {{"tf_Compute", 1.5}};
  EXPECT_THAT(
      Tables(),
      AllOf(HasSubstr("4 steps of 250.0 ms"),
            HasSubstr("  40.0 %      100.0 ms a step  operations of TensorFlow, and graphs\n"),
            HasSubstr("   1.0 %        2.5 ms a step  other Python of TensorFlow and Keras\n"),
            HasSubstr("  20.0 %       50.0 ms a step  the program's own Python\n"),
            HasSubstr("  10.0 %       25.0 ms a step  collective operations\n"),
            HasSubstr("   9.0 %       22.5 ms a step  the input pipeline (tf.data)\n"),
            HasSubstr("   8.0 %       20.0 ms a step  checkpoints\n"),
            HasSubstr("   7.0 %       17.5 ms a step  reading rows of the feed\n"),
            HasSubstr("   3.0 %        7.5 ms a step  tracing"),
            HasSubstr("  25.0 %       62.5 ms a step  waiting for rows\n"),
            HasSubstr(" 150.0 %      375.0 ms a step  tf_Compute\n")));
}

TEST_F(ProfileReportTest, WhatModulesDoAsTheyAreImportedIsAnImport) {
  const Frame import{
      .name = "_call_with_frames_removed", .file = "<frozen importlib._bootstrap>", .line = 241};
  const Frame dataset = Library("<module>", "/tensorflow/python/data/ops/dataset_ops.py");
  const Frame graph = Library("<module>", "/tensorflow/python/framework/func_graph.py");
  Add("MainThread", {import, dataset, import, graph}, 300'000);
  Add("MainThread", {main_, import, dataset, execute_}, 400'000);
  // A program that trains as it is imported.
  Add("MainThread", {import, main_, hot_}, 300'000);
  EXPECT_THAT(Tables(), AllOf(HasSubstr("  70.0 %  importing modules\n"),
                              HasSubstr("  30.0 %  the program's own Python\n")));
}

TEST_F(ProfileReportTest, ANodeThatMostlyWaitsIsSaidToBeforeAllTables) {
  Add("MainThread", {main_, fit_, execute_}, 1'000'000);
  builder_.profile().counters = {{"feed_node_wait_seconds", 0.49},
                                 {"collective_wait_seconds", 0.4}};
  EXPECT_THAT(Tables(), Not(HasSubstr("mostly")));
  builder_.profile().counters["feed_node_wait_seconds"] = 0.97;
  const std::string tables = Tables();
  EXPECT_THAT(tables, HasSubstr("\nIt mostly waits for rows: 97 % of the time.\n\nWhere"));
  builder_.profile().counters = {{"collective_wait_seconds", 1.7}};
  EXPECT_THAT(Tables(), HasSubstr("It mostly waits for other nodes: 100 % of the time.\n"));
}

TEST_F(ProfileReportTest, APartOfTheOperationsIsNoLargerThanAllOfThem) {
  Add("MainThread", {main_, fit_, execute_}, 1'000'000);
  builder_.profile().counters = {{"collective_seconds", 0.08}, {"collective_wait_seconds", 0.085}};
  EXPECT_THAT(Tables(), AllOf(HasSubstr("   8.0 %  collective operations\n"),
                              HasSubstr("   8.0 %    of these, waiting for other nodes\n")));
}

TEST_F(ProfileReportTest, AProgramThatMostlyWaitsForItsDatasetIsSaidTo) {
  Add("MainThread", {main_, fit_, execute_}, 1'000'000);
  // Seen for a quarter of the time.
  builder_.profile().counters = {
      {"step", 10}, {"dataset_wait_seconds", 0.2}, {"dataset_watched_seconds", 0.25}};
  EXPECT_THAT(
      Tables(),
      AllOf(HasSubstr("\nIt mostly waits for its own dataset (tf.data): 80 % of the time.\n"),
            HasSubstr("  80.0 %       80.0 ms a step  waiting for its own dataset (tf.data)\n")));
  builder_.profile().counters["feed_node_wait_seconds"] = 0.4;
  EXPECT_THAT(Tables(), AllOf(Not(HasSubstr("mostly")), HasSubstr("  40.0 %       40.0 ms a step  "
                                                                  "waiting for its own dataset")));
  builder_.profile().counters["feed_node_wait_seconds"] = 0.9;
  EXPECT_THAT(Tables(), AllOf(HasSubstr("It mostly waits for rows: 90 %"),
                              Not(HasSubstr("its own dataset"))));
  builder_.profile().counters = {{"dataset_watched_seconds", 0.25}};
  EXPECT_THAT(Tables(), Not(HasSubstr("dataset (tf.data)")));
}

TEST_F(ProfileReportTest, WaitsForADatasetThatCouldNotBeSeenAreNotDenied) {
  Add("MainThread", {main_, fit_, execute_}, 1'000'000);
  EXPECT_THAT(Tables(),
              HasSubstr("\nWhether it waits for its own dataset (tf.data) can't be told: "));
  builder_.profile().counters = {{"feed_node_wait_seconds", 0.9}};
  EXPECT_THAT(Tables(), Not(HasSubstr("can't be told")));
}

TEST_F(ProfileReportTest, FewStepsAreSaidToBeAGuess) {
  Add("MainThread", {main_, hot_}, 1'000'000);
  builder_.profile().counters = {{"step", 1}};
  EXPECT_THAT(Tables(), AllOf(HasSubstr(", 1 step of 1000.0 ms\nOnly 1 step in 1.0 s, so what a "
                                        "step takes is a rough guess."),
                              Not(HasSubstr("1 steps"))));
  builder_.profile().counters = {{"step", 2}};
  EXPECT_THAT(Tables(), HasSubstr(", 2 steps of 500.0 ms\nOnly 2 steps in 1.0 s, "));
  builder_.profile().counters = {{"step", 3}};
  EXPECT_THAT(Tables(), Not(HasSubstr("guess")));
}

TEST_F(ProfileReportTest, TheProgramsFunctionsHaveWhatTheyCall) {
  Add("MainThread", {main_, hot_, Library("dot", "/numpy/core.py")}, 200'000);
  Frame elsewhere = hot_;
  elsewhere.line = 13;
  Add("MainThread", {main_, elsewhere}, 300'000);
  Add("MainThread", {main_, fit_}, 100'000);
  const std::string tables = Tables();
  EXPECT_THAT(tables, HasSubstr("  50.0 %  hot  (models/prog.py, most of it at line 13)\n"));
  EXPECT_THAT(tables, HasSubstr("  10.0 %  train  (models/prog.py, most of it at line 31)\n"));
  EXPECT_THAT(tables, Not(HasSubstr("a step")));
}

TEST_F(ProfileReportTest, FunctionsOnOtherThreadsHaveATableOfTheirOwn) {
  Add("MainThread", {main_, fit_, execute_}, 1'000'000);
  Add("new threads", {script_ops_, hot_, Library("dot", "/numpy/core.py")}, 300'000);
  Add("Thread-N", {Library("run", "/lib/python3.11/threading.py"), hot_}, 900'000);
  Add("Thread-N", {Library("serve", "/tfos/feed/server.py")}, 500'000);
  builder_.profile().counters = {{"step", 10}};
  const std::string tables = Tables();
  EXPECT_THAT(tables,
              HasSubstr("\n\nFunctions of the program on other threads, such as those of a "
                        "dataset's map:\n   120.0 %      120.0 ms a step  hot  (models/prog.py, "
                        "most of it at line 12)\n"));
  EXPECT_THAT(tables, Not(HasSubstr("serve")));
  // It is not known that a step needs what a thread of the program does.
  EXPECT_THAT(tables, Not(HasSubstr("may be waiting")));
}

TEST_F(ProfileReportTest, ASlowFunctionThatAGraphCallsIsNamedBeforeAllTables) {
  Add("MainThread", {main_, fit_, execute_}, 900'000);
  Add("MainThread", {main_, hot_}, 100'000);
  Add("new threads", {script_ops_, hot_}, 490'000);
  EXPECT_THAT(Tables(), Not(HasSubstr("may be waiting")));
  Add("new threads", {script_ops_, hot_}, 300'000);
  EXPECT_THAT(Tables(),
              HasSubstr("\nA step may be waiting for hot, which was on another thread for "
                        "79 % of the time.\n\nWhere"));
  builder_.profile().counters = {{"feed_node_wait_seconds", 0.97}};
  EXPECT_THAT(Tables(), AllOf(HasSubstr("mostly waits for rows"), Not(HasSubstr("may be"))));
}

TEST_F(ProfileReportTest, AStepOfTheProgramsOwnPythonWaitsForNoOtherFunction) {
  Add("MainThread", {main_, hot_}, 1'000'000);
  Add("new threads", {script_ops_, hot_}, 800'000);
  EXPECT_THAT(Tables(), Not(HasSubstr("may be waiting")));
}

TEST_F(ProfileReportTest, WhatAutographMakesCountsForTheFunctionThatCalledIt) {
  const Frame made{.name = "tf__hot", .file = "/tmp/__autograph_generated_file1x2y.py", .line = 8};
  Add("MainThread", {main_, Library("call", "/tensorflow/python/autograph/impl/api.py"), made},
      1'000'000);
  const std::string tables = Tables();
  EXPECT_THAT(tables, HasSubstr(" 100.0 %  train  (models/prog.py, most of it at line 31)\n"));
  EXPECT_THAT(tables, Not(HasSubstr("autograph")));
}

TEST_F(ProfileReportTest, TheFileIsWhatSpeedscopeReads) {
  Add("Another", {hot_}, 5);
  Add("MainThread", {main_, hot_}, 600);
  Add("MainThread", {main_}, 400);
  const json file = json::parse(SpeedscopeFile(builder_.profile(), "worker:0"));
  EXPECT_EQ(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
  EXPECT_EQ(file["name"], "worker:0");
  ASSERT_EQ(file["profiles"].size(), 2u);
  const json& main = file["profiles"][0];
  EXPECT_EQ(main["name"], "MainThread");
  EXPECT_EQ(main["type"], "sampled");
  EXPECT_EQ(main["unit"], "microseconds");
  EXPECT_EQ(main["startValue"], 0);
  EXPECT_EQ(main["endValue"], 1000);
  EXPECT_THAT(main["weights"], ElementsAre(400, 600));
  const json& frames = file["shared"]["frames"];
  ASSERT_EQ(main["samples"][1].size(), 2u);
  EXPECT_EQ(frames[main["samples"][1][0].get<int>()]["name"], "train");
  const json& hot = frames[main["samples"][1][1].get<int>()];
  EXPECT_EQ(hot, json({{"name", "hot"}, {"file", hot_.file}, {"line", 12}}));
}

TEST_F(ProfileReportTest, NothingIsDescribed) {
  EXPECT_THAT(ProfileTables({}, "worker:0"), HasSubstr("0 samples"));
  EXPECT_EQ(json::parse(SpeedscopeFile({}, "worker:0"))["profiles"], json::array());
}

TEST_F(ProfileReportTest, NoTextMovesTheCursor) {
  Add("MainThread", {{.name = "\x1b[2J", .file = "/a/\x07.py", .line = 1}}, 500'000);
  EXPECT_THAT(Tables(), AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07"))));
}

}  // namespace
}  // namespace tfos::cli
