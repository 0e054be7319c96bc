#include "control/messages/node_notices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/text/utf8.h"

namespace tfos::control {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(NodeNoticesTest, TheLatestReasonOfANodeCounts) {
  NodeNotices nodes;
  nodes.Add(NodeLeaving{.node_id = 7, .reason = "first"});
  nodes.Add(NodeLeaving{.node_id = 2, .reason = "why"});
  nodes.Add(NodeLeaving{.node_id = 7, .reason = "second"});
  EXPECT_THAT(nodes.reasons(), ElementsAre(Pair(2, "why"), Pair(7, "second")));
  nodes.Add(NodeLeaving{.node_id = 2, .reason = ""});
  EXPECT_THAT(nodes.reasons(), ElementsAre(Pair(7, "second"))) << "it has gone";
}

TEST(NodeNoticesTest, ACoordinatorThatNamesNodesWithoutEndIsNotKeptInFull) {
  NodeNotices nodes;
  for (int node_id = 0; node_id < 100'000; ++node_id)
    nodes.Add(NodeLeaving{.node_id = node_id, .reason = "x"});
  EXPECT_EQ(nodes.reasons().size(), NodeNotices::kMost);
  nodes.Add(NodeLeaving{.node_id = 5, .reason = "known"});
  EXPECT_EQ(nodes.reasons().at(5), "known");
}

TEST(NodeNoticesTest, ALongReasonIsCutBetweenCharacters) {
  for (std::size_t before = 0; before < 4; ++before) {
    NodeNotices nodes;
    std::string reason(before, '.');
    while (reason.size() < 10 * NodeNotices::kLongestText) reason += "\xE2\x82\xAC";
    nodes.Add(NodeLeaving{.node_id = 1, .reason = reason});
    const std::string& kept = nodes.reasons().at(1);
    EXPECT_LE(kept.size(), NodeNotices::kLongestText);
    EXPECT_GT(kept.size() + 3, NodeNotices::kLongestText);
    EXPECT_TRUE(IsUtf8(kept));
    EXPECT_TRUE(reason.starts_with(kept));
  }
}

TEST(NodeNoticesTest, TheLatestPlaceOfANodeCounts) {
  NodeNotices nodes;
  nodes.Add(NodeMoved{.node_id = 1, .name = "ps:1 on host a", .address = "10.0.0.1"});
  nodes.Add(NodeMoved{.node_id = 1, .name = "ps:1 on host b", .address = "10.0.0.2"});
  EXPECT_EQ(nodes.moved().at(1).address, "10.0.0.2");
  EXPECT_EQ(nodes.moved().at(1).name, "ps:1 on host b");
  for (int node_id = 0; node_id < 100'000; ++node_id) {
    nodes.Add(NodeMoved{.node_id = node_id, .name = "n", .address = "a"});
  }
  EXPECT_EQ(nodes.moved().size(), NodeNotices::kMost);
  const std::string endless(10 * NodeNotices::kLongestText, 'x');
  nodes.Add(NodeMoved{.node_id = 1, .name = endless, .address = endless});
  EXPECT_EQ(nodes.moved().at(1).address.size(), NodeNotices::kLongestText);
}

}  // namespace
}  // namespace tfos::control
