#include "control/messages/leaving_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/text/utf8.h"

namespace tfos::control {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(LeavingNodesTest, TheLatestReasonOfANodeCounts) {
  LeavingNodes nodes;
  nodes.Add({.node_id = 7, .reason = "first"});
  nodes.Add({.node_id = 2, .reason = "why"});
  nodes.Add({.node_id = 7, .reason = "second"});
  EXPECT_THAT(nodes.reasons(), ElementsAre(Pair(2, "why"), Pair(7, "second")));
}

TEST(LeavingNodesTest, ACoordinatorThatNamesNodesWithoutEndIsNotKeptInFull) {
  LeavingNodes nodes;
  for (int node_id = 0; node_id < 100'000; ++node_id)
    nodes.Add({.node_id = node_id, .reason = "x"});
  EXPECT_EQ(nodes.reasons().size(), LeavingNodes::kMost);
  nodes.Add({.node_id = 5, .reason = "known"});
  EXPECT_EQ(nodes.reasons().at(5), "known");
}

TEST(LeavingNodesTest, ALongReasonIsCutBetweenCharacters) {
  for (std::size_t before = 0; before < 4; ++before) {
    LeavingNodes nodes;
    std::string reason(before, '.');
    while (reason.size() < 10 * LeavingNodes::kLongestReason) reason += "\xE2\x82\xAC";
    nodes.Add({.node_id = 1, .reason = reason});
    const std::string& kept = nodes.reasons().at(1);
    EXPECT_LE(kept.size(), LeavingNodes::kLongestReason);
    EXPECT_GT(kept.size() + 3, LeavingNodes::kLongestReason);
    EXPECT_TRUE(IsUtf8(kept));
    EXPECT_TRUE(reason.starts_with(kept));
  }
}

}  // namespace
}  // namespace tfos::control
