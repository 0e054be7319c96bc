#include "control/agent/child/log_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfos::control {
namespace {

using ::testing::ElementsAre;

TEST(LogTailTest, SplitsLinesAndKeepsEmptyOnes) {
  LogTail tail;
  tail.Add("a\n\nb\n");
  tail.Add("c");
  EXPECT_THAT(tail.Lines(), ElementsAre("a", "", "b", "c"));
}

TEST(LogTailTest, ForgetsTheOldest) {
  LogTail tail;
  for (std::size_t i = 0; i < LogTail::kMaxLines + 5; ++i) tail.Add(std::to_string(i) + "\n");
  EXPECT_EQ(tail.Lines().size(), LogTail::kMaxLines);
  EXPECT_EQ(tail.Lines().front(), "5");
}

TEST(LogTailTest, CutsLongLines) {
  LogTail tail;
  tail.Add(std::string(LogTail::kMaxLineBytes + 1, 'x'));
  EXPECT_EQ(tail.Lines().front().size(), LogTail::kMaxLineBytes);
}

}  // namespace
}  // namespace tfos::control
