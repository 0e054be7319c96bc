#include "control/coordinator/roster/offices/host_losses.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/time/deadline.h"

namespace tfos::control {
namespace {

using std::chrono::seconds;

class HostLossesTest : public ::testing::Test {
 protected:
  void Lose(const char* host, seconds later = seconds(2)) {
    clock_.Advance(later);
    losses_.Add(host, clock_.Now());
  }
  bool IsAvoided(const char* host, seconds later = seconds(0)) {
    clock_.Advance(later);
    return losses_.Look(host, clock_.Now()).has_value();
  }

  ManualClock clock_;
  HostLosses losses_{3, seconds(60)};
};

TEST_F(HostLossesTest, AHostIsAvoidedAfterSoManyLosses) {
  EXPECT_FALSE(IsAvoided("a"));
  Lose("a");
  Lose("a");
  Lose("b");
  EXPECT_FALSE(IsAvoided("a"));
  Lose("a");
  EXPECT_TRUE(IsAvoided("a"));
  EXPECT_FALSE(IsAvoided("b")) << "each host by itself";
}

TEST_F(HostLossesTest, ItIsAvoidedUntilTheFirstOfThemIsForgotten) {
  Lose("a");
  Lose("a", seconds(20));
  Lose("a", seconds(20));
  EXPECT_EQ(losses_.Look("a", clock_.Now()), seconds(40));
  EXPECT_TRUE(IsAvoided("a", seconds(19)));
  EXPECT_FALSE(IsAvoided("a", seconds(1)));
  Lose("a", seconds(5));
  EXPECT_TRUE(IsAvoided("a")) << "two of them are still known";
}

TEST_F(HostLossesTest, LossesOfOneMomentAreOne) {
  for (int node = 0; node < 8; ++node) Lose("a", seconds(0));
  EXPECT_FALSE(IsAvoided("a"));
  Lose("a");
  EXPECT_FALSE(IsAvoided("a"));
  Lose("a");
  EXPECT_TRUE(IsAvoided("a"));
}

TEST_F(HostLossesTest, RareLossesAreNoReason) {
  for (int loss = 0; loss < 20; ++loss) {
    Lose("a", seconds(30));
    EXPECT_FALSE(IsAvoided("a")) << loss;
  }
}

TEST_F(HostLossesTest, OneMayBeEnoughAndNoneIsNever) {
  HostLosses one(1, seconds(60));
  HostLosses never(0, seconds(60));
  for (HostLosses* losses : {&one, &never}) losses->Add("a", clock_.Now());
  EXPECT_TRUE(one.Look("a", clock_.Now()).has_value());
  EXPECT_FALSE(never.Look("a", clock_.Now()).has_value());
}

}  // namespace
}  // namespace tfos::control
