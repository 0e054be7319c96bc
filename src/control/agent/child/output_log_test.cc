#include "control/agent/child/output_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace tfos::control {
namespace {

using ::testing::ElementsAre;

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

TEST(OutputLogTest, SplitsLinesAndKeepsEmptyOnes) {
  OutputLog log;
  log.Add("a\n\nb\n");
  log.Add("c");
  EXPECT_THAT(log.LastLines(), ElementsAre("a", "", "b", "c"));
}

TEST(OutputLogTest, AMessageHasTheLastLines) {
  OutputLog log;
  for (std::size_t i = 0; i < OutputLog::kMaxLines + 5; ++i) log.Add(std::to_string(i) + "\n");
  EXPECT_EQ(log.LastLines().size(), OutputLog::kMaxLines);
  EXPECT_EQ(log.LastLines().front(), "5");
}

TEST(OutputLogTest, AMessageHasNoLongLines) {
  OutputLog log;
  log.Add(std::string(OutputLog::kMaxLineBytes + 1, 'x'));
  EXPECT_EQ(log.LastLines().front().size(), OutputLog::kMaxLineBytes);
}

TEST(OutputLogTest, TellsWhatFollowsAPosition) {
  OutputLog log;
  log.Add("first\nsecond\nthird\n");
  EXPECT_EQ(log.end(), 19);
  EXPECT_EQ(log.After(6, kAll).text, "second\nthird\n");
  EXPECT_EQ(log.After(19, kAll).text, "");
  EXPECT_EQ(log.After(100, kAll).from, 19);
  // It ends with a line, unless that one is longer.
  EXPECT_EQ(log.After(0, 14).text, "first\nsecond\n");
  EXPECT_EQ(log.After(0, 13).text, "first\nsecond\n");
  EXPECT_EQ(log.After(0, 12).text, "first\n");
  EXPECT_EQ(log.After(0, 3).text, "fir");
}

TEST(OutputLogTest, TellsTheLastLines) {
  OutputLog log;
  log.Add("first\n\nthird");
  EXPECT_EQ(log.Last(0, kAll).text, "");
  EXPECT_EQ(log.Last(1, kAll).text, "third");
  EXPECT_EQ(log.Last(2, kAll).text, "\nthird");
  EXPECT_EQ(log.Last(3, kAll).text, "first\n\nthird");
  EXPECT_EQ(log.Last(9, kAll).from, 0);
  EXPECT_EQ(log.Last(9, 3).text, "ird");
  EXPECT_EQ(log.Last(9, 3).from, 9);
}

TEST(OutputLogTest, ForgetsTheOldest) {
  OutputLog log;
  const std::string line = std::string(999, 'x') + "\n";
  for (int i = 0; i < 10'000; ++i) log.Add(line);
  EXPECT_EQ(log.end(), 10'000'000);
  const OutputLog::Piece kept = log.After(0, kAll);
  EXPECT_GE(kept.text.size(), OutputLog::kKeptBytes);
  EXPECT_LE(kept.text.size(), OutputLog::kKeptBytes * 5 / 4);
  EXPECT_EQ(kept.from, 10'000'000 - static_cast<std::int64_t>(kept.text.size()));
}

}  // namespace
}  // namespace tfos::control
