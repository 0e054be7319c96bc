#include "feed/feeder/nodes/feed_balancer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tfos::feed {
namespace {

using Action = BalanceChoice::Action;

struct Case {
  std::string name;
  std::vector<BalanceCandidate> candidates;
  std::uint64_t bytes;
  Action action;
  std::size_t index;
  bool anywhere = false;
};

/// As the name of the test says it; its bytes would say nothing.
void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

class FeedBalancerTest : public testing::TestWithParam<Case> {};

TEST_P(FeedBalancerTest, Chooses) {
  const Case& c = GetParam();
  const BalanceChoice choice = ChooseNode(c.candidates, c.bytes, c.anywhere);
  EXPECT_EQ(choice.action, c.action);
  if (c.action == Action::kSend) {
    EXPECT_EQ(choice.index, c.index);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FeedBalancerTest,
    testing::Values(
        Case{"Nobody", {}, 10, Action::kDiscard, 0},
        Case{"AllStopped", {{100, 100, 0, true}, {100, 100, 0, true}}, 10, Action::kDiscard, 0},
        Case{"LeastAccepted", {{90, 100, 90, false}, {50, 100, 20, false}}, 10, Action::kSend, 1},
        Case{
            "TheOneThatKeepsUp", {{49, 100, 0, false}, {50, 100, 90, false}}, 10, Action::kSend, 1},
        Case{"MostRoom", {{30, 100, 0, false}, {40, 100, 90, false}}, 10, Action::kSend, 1},
        Case{"LeastAcceptedOfTheBusy",
             {{40, 100, 90, false}, {40, 100, 20, false}},
             10,
             Action::kSend,
             1},
        Case{"First", {{80, 100, 20, false}, {80, 100, 20, false}}, 10, Action::kSend, 0},
        Case{"NotTheStopped", {{90, 100, 0, true}, {20, 100, 50, false}}, 10, Action::kSend, 1},
        Case{"ExactFit", {{10, 100, 0, false}}, 10, Action::kSend, 0},
        Case{"AllBusy", {{9, 100, 0, false}, {0, 100, 0, false}}, 10, Action::kWait, 0},
        Case{"BusyOrStopped", {{9, 100, 0, false}, {90, 100, 0, true}}, 10, Action::kWait, 0},
        Case{"HugeWaitsForEmpty", {{99, 100, 0, false}}, 1000, Action::kWait, 0},
        Case{"HugeToAnEmptyNode",
             {{99, 100, 0, false}, {100, 100, 900, false}},
             1000,
             Action::kSend,
             1},
        Case{"NearRatherThanRemote",
             {{50, 100, 80, false}, {100, 100, 75, false, true}},
             10,
             Action::kSend,
             0},
        Case{"RemoteThatLagsBehind",
             {{90, 100, 80, false}, {60, 100, 60, false, true}},
             10,
             Action::kSend,
             1},
        Case{"RemoteWaitsForTheirPatience",
             {{0, 100, 80, false}, {100, 100, 80, false, true}},
             10,
             Action::kWait,
             0},
        Case{"AnywhereAtLast",
             {{0, 100, 80, false}, {100, 100, 80, false, true}},
             10,
             Action::kSend,
             1,
             true},
        Case{"RemoteWhenNobodyNearWantsRows",
             {{90, 100, 10, true}, {60, 100, 60, false, true}},
             10,
             Action::kSend,
             1}),
    [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace tfos::feed
