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
        Case{"Nobody", {}, 10, Action::kWait, 0},
        Case{"LeastAccepted", {{90, 100, 90}, {50, 100, 20}}, 10, Action::kSend, 1},
        Case{"TheOneThatKeepsUp", {{49, 100, 0}, {50, 100, 90}}, 10, Action::kSend, 1},
        Case{"MostRoom", {{30, 100, 0}, {40, 100, 90}}, 10, Action::kSend, 1},
        Case{"LeastAcceptedOfTheBusy", {{40, 100, 90}, {40, 100, 20}}, 10, Action::kSend, 1},
        Case{"First", {{80, 100, 20}, {80, 100, 20}}, 10, Action::kSend, 0},
        Case{"ExactFit", {{10, 100, 0}}, 10, Action::kSend, 0},
        Case{"AllBusy", {{9, 100, 0}, {0, 100, 0}}, 10, Action::kWait, 0},
        Case{"HugeWaitsForEmpty", {{99, 100, 0}}, 1000, Action::kWait, 0},
        Case{"HugeToAnEmptyNode", {{99, 100, 0}, {100, 100, 900}}, 1000, Action::kSend, 1},
        Case{"NearRatherThanRemote", {{50, 100, 80}, {100, 100, 75, true}}, 10, Action::kSend, 0},
        Case{"RemoteThatLagsBehind", {{90, 100, 80}, {60, 100, 60, true}}, 10, Action::kSend, 1},
        Case{"RemoteWaitsForTheirPatience",
             {{0, 100, 80}, {100, 100, 80, true}},
             10,
             Action::kWait,
             0},
        Case{"AnywhereAtLast", {{0, 100, 80}, {100, 100, 80, true}}, 10, Action::kSend, 1, true},
        Case{"RemoteWhenNobodyNearWantsRows", {{60, 100, 60, true}}, 10, Action::kSend, 0}),
    [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace tfos::feed
