#include "feed/feeder/nodes/feed_balancer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tfos::feed {
namespace {

using Action = BalanceChoice::Action;

AcceptedBytes Bytes(std::uint64_t of_epoch, std::uint64_t before = 0) {
  return {.of_epoch = of_epoch, .of_all = before + of_epoch};
}

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
        Case{"LeastAccepted", {{90, 100, Bytes(90)}, {50, 100, Bytes(20)}}, 10, Action::kSend, 1},
        Case{
            "TheOneThatKeepsUp", {{49, 100, Bytes(0)}, {50, 100, Bytes(90)}}, 10, Action::kSend, 1},
        Case{"MostRoom", {{30, 100, Bytes(0)}, {40, 100, Bytes(90)}}, 10, Action::kSend, 1},
        Case{"LeastAcceptedOfTheBusy",
             {{40, 100, Bytes(90)}, {40, 100, Bytes(20)}},
             10,
             Action::kSend,
             1},
        Case{"First", {{80, 100, Bytes(20)}, {80, 100, Bytes(20)}}, 10, Action::kSend, 0},
        Case{"ExactFit", {{10, 100, Bytes(0)}}, 10, Action::kSend, 0},
        Case{"AllBusy", {{9, 100, Bytes(0)}, {0, 100, Bytes(0)}}, 10, Action::kWait, 0},
        Case{"HugeWaitsForEmpty", {{99, 100, Bytes(0)}}, 1000, Action::kWait, 0},
        Case{"HugeToAnEmptyNode",
             {{99, 100, Bytes(0)}, {100, 100, Bytes(900)}},
             1000,
             Action::kSend,
             1},
        Case{"NearRatherThanRemote",
             {{50, 100, Bytes(80)}, {100, 100, Bytes(75), true}},
             10,
             Action::kSend,
             0},
        Case{"RemoteThatLagsBehind",
             {{90, 100, Bytes(80)}, {60, 100, Bytes(60), true}},
             10,
             Action::kSend,
             1},
        Case{"RemoteWaitsForTheirPatience",
             {{0, 100, Bytes(80)}, {100, 100, Bytes(80), true}},
             10,
             Action::kWait,
             0},
        Case{"AnywhereAtLast",
             {{0, 100, Bytes(80)}, {100, 100, Bytes(80), true}},
             10,
             Action::kSend,
             1,
             true},
        Case{"LeastOfTheEpochWhateverCameBefore",
             {{90, 100, Bytes(20, 900)}, {90, 100, Bytes(21, 0)}},
             10,
             Action::kSend,
             0},
        Case{"LeastOfAllAtTheEpochsBeginning",
             {{90, 100, Bytes(0, 900)}, {90, 100, Bytes(0, 100)}},
             10,
             Action::kSend,
             1},
        Case{"RemoteThatJoinedGetsItsShare",
             {{90, 100, Bytes(20, 900)}, {90, 100, Bytes(10, 0), true}},
             10,
             Action::kSend,
             1},
        Case{"RemoteThatJoinedGetsNoMoreThanThat",
             {{90, 100, Bytes(20, 900)}, {90, 100, Bytes(21, 0), true}},
             10,
             Action::kSend,
             0},
        Case{"RemoteThatLacksLittleOfAnEpoch",
             {{90, 100, Bytes(kWorthTheWay + 1, 0)}, {90, 100, Bytes(1, 1 << 30), true}},
             10,
             Action::kSend,
             0},
        Case{"RemoteThatLacksMuchOfAnEpoch",
             {{90, 100, Bytes(kWorthTheWay + 2, 0)}, {90, 100, Bytes(1, 1 << 30), true}},
             10,
             Action::kSend,
             1},
        Case{"RemoteThatHasNothingOfAnEpoch",
             {{90, 100, Bytes(kWorthTheFirst + 1, 0)}, {90, 100, Bytes(0, 1 << 30), true}},
             10,
             Action::kSend,
             1},
        Case{"RemoteWhenNobodyNearWantsRows", {{60, 100, Bytes(60), true}}, 10, Action::kSend, 0}),
    [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace tfos::feed
