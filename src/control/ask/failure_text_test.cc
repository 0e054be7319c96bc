#include "control/ask/failure_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tfos::control {
namespace {

using nlohmann::json;

json NodeFailure() {
  return {{"node_id", 3},
          {"job_name", "worker"},
          {"task_index", 1},
          {"executor_id", "7"},
          {"host", "h"},
          {"step", "run map_fun"},
          {"message", "ValueError: no"}};
}

std::string TextOf(const json& failure) { return FailureText(failure.dump()).value(); }

TEST(FailureTextTest, ANodesFailureSaysWhoAndWhereAndWhy) {
  EXPECT_EQ(TextOf(NodeFailure()),
            "worker:1 (node 3, executor 7 on h) failed to run map_fun: ValueError: no");
}

TEST(FailureTextTest, AFailureOfNoNodeIsTheClusters) {
  EXPECT_EQ(TextOf({{"node_id", -1}, {"step", "start"}, {"message", "no word"}}),
            "the cluster failed: start: no word");
}

TEST(FailureTextTest, WhatIsNotKnownIsAQuestionMark) {
  json failure = NodeFailure();
  failure["executor_id"] = "";
  failure.erase("host");
  EXPECT_EQ(TextOf(failure),
            "worker:1 (node 3, executor ? on ?) failed to run map_fun: ValueError: no");
}

TEST(FailureTextTest, TheTracebackComesBeforeTheLog) {
  json failure = NodeFailure();
  failure["log_tail"] = {"one", "two"};
  const std::string where = "\nAll of its output is in the stderr of executor 7 on h.";
  EXPECT_THAT(TextOf(failure), testing::EndsWith(": no\nIts last lines:\n  one\n  two" + where));
  failure["traceback"] = "Traceback:\n  line\n\n";
  EXPECT_THAT(TextOf(failure), testing::EndsWith(": no\nRemote traceback:\nTraceback:\n  line\n"
                                                 "Its last lines:\n  one\n  two" +
                                                 where));
  failure["executor_id"] = "driver";
  EXPECT_THAT(TextOf(failure), testing::EndsWith("  two\nAll of its output is in the driver's."));
}

TEST(FailureTextTest, ATracebackThatTheNodeHasWrittenStandsOnce) {
  json failure = NodeFailure();
  failure["traceback"] = "Traceback:\n  line\nError: x\n";
  const std::string begin = ": no\nRemote traceback:\nTraceback:\n  line\nError: x\n";
  failure["log_tail"] = {"one", "Traceback:", "  line", "Error: x", "two", ""};
  EXPECT_THAT(TextOf(failure), testing::HasSubstr(begin + "Its last lines:\n  one\n  two\nAll"));
  failure["log_tail"] = {"  line", "Error: x", "two"};
  EXPECT_THAT(TextOf(failure), testing::HasSubstr(begin + "Its last lines:\n  two\nAll"));
  failure["log_tail"] = {"Traceback:", "  line", "Error: x", ""};
  EXPECT_THAT(TextOf(failure), testing::HasSubstr(begin + "All of its output"));
}

TEST(FailureTextTest, BelowATracebackAreAFewLines) {
  json failure = NodeFailure();
  failure["traceback"] = "Traceback:";
  for (int i = 0; i < 50; ++i) failure["log_tail"].push_back(std::to_string(i));
  EXPECT_THAT(TextOf(failure), testing::HasSubstr("Its last lines:\n  30\n  31\n"));
}

// A node may say anything, and a terminal obeys.
TEST(FailureTextTest, ItsTextsArePrintable) {
  json failure = NodeFailure();
  failure["message"] = "\x1b]0;title\x07no\nmore";
  failure["traceback"] = "Traceback:\n\tline\u009b2J";
  failure["log_tail"] = {"10 %\r20 %"};
  EXPECT_THAT(TextOf(failure),
              testing::HasSubstr(":  ]0;title no\nmore\nRemote traceback:\n"
                                 "Traceback:\n line 2J\nIts last lines:\n  10 % 20 %\n"));
}

TEST(FailureTextTest, AnythingElseIsRefused) {
  EXPECT_EQ(FailureText("[]").status().kind(), ErrorKind::kBadInput);
  EXPECT_EQ(FailureText("{").status().kind(), ErrorKind::kBadInput);
}

// To write it down would take more stack than there is.
TEST(FailureTextTest, OneThatIsNestedWithoutEndIsRefused) {
  const std::string opened(1'000'000, '[');
  const std::string closed(1'000'000, ']');
  EXPECT_EQ(FailureText(R"({"log_tail":)" + opened + closed + "}").status().kind(),
            ErrorKind::kBadInput);
}

}  // namespace
}  // namespace tfos::control
