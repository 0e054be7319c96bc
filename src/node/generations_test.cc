#include "node/generations.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tfos::node {
namespace {

control::GroupReady For(int generation) {
  return {.generation = generation, .committed = 3, .leaves = false, .reason = "r"};
}

control::FormedGroup Formed(int generation) {
  return {.generation = generation, .committed = 3, .members = {}};
}

TEST(GenerationsTest, AGenerationIsOverWhenALaterOneWasOpened) {
  Generations generations([](const control::GroupReady&) { return Status(); });
  EXPECT_TRUE(generations.Check(0).ok());
  generations.On(control::Regroup{.generation = 2, .reason = "worker:1 is lost"});
  EXPECT_EQ(generations.Check(1).message(), "worker:1 is lost");
  EXPECT_TRUE(generations.Check(2).ok());
}

TEST(GenerationsTest, WaitsForTheGenerationThatItIsReadyFor) {
  std::vector<int> told;
  Generations generations([&](const control::GroupReady& ready) {
    told.push_back(ready.generation);
    return Status();
  });
  generations.On(Formed(1));  // That was before.
  std::thread coordinator([&] { generations.On(Formed(2)); });
  const auto formed = generations.AwaitNext(For(2), {});
  coordinator.join();
  ASSERT_TRUE(formed.ok());
  EXPECT_EQ(formed->generation, 2);
  EXPECT_EQ(told, std::vector<int>{2});
}

TEST(GenerationsTest, SaysThatItIsReadyForALaterOneToo) {
  std::vector<int> told;
  Generations* self = nullptr;
  Generations generations([&](const control::GroupReady& ready) {
    told.push_back(ready.generation);
    if (ready.generation == 1) self->On(control::Regroup{.generation = 2, .reason = "r"});
    if (ready.generation == 2) self->On(Formed(2));
    return Status();
  });
  self = &generations;
  const auto formed = generations.AwaitNext(For(1), {});
  ASSERT_TRUE(formed.ok());
  EXPECT_EQ(formed->generation, 2);
  EXPECT_EQ(told, (std::vector<int>{1, 2}));
}

TEST(GenerationsTest, WhatWasFormedComesBeforeWhatWasOpenedLater) {
  Generations* self = nullptr;
  Generations generations([&](const control::GroupReady&) {
    self->On(Formed(1));
    self->On(control::Regroup{.generation = 2, .reason = "r"});
    return Status();
  });
  self = &generations;
  const auto formed = generations.AwaitNext(For(1), {});
  ASSERT_TRUE(formed.ok());
  EXPECT_EQ(formed->generation, 1);
}

TEST(GenerationsTest, AWaitIsInterrupted) {
  Generations generations([](const control::GroupReady&) { return Status(); });
  const auto formed = generations.AwaitNext(
      For(1), [] { return Status(ErrorKind::kInterrupted, "the program ends"); });
  EXPECT_EQ(formed.status().kind(), ErrorKind::kInterrupted);
}

TEST(GenerationsTest, AnAgentThatIsGoneEndsTheWait) {
  Generations generations([](const control::GroupReady&) {
    return Status(ErrorKind::kReconnect, "the agent is gone");
  });
  EXPECT_EQ(generations.AwaitNext(For(1), {}).status().message(), "the agent is gone");
}

TEST(GenerationsTest, WhoGetsNoGroupHearsWhy) {
  Generations* self = nullptr;
  Generations generations([&](const control::GroupReady&) {
    self->On(control::NoGroup{"worker:1 is not a member of its group any more: it is lost"});
    return Status();
  });
  self = &generations;
  const Status none = generations.AwaitNext(For(1), {}).status();
  EXPECT_EQ(none.kind(), ErrorKind::kReconnect);
  EXPECT_EQ(none.message(), "worker:1 is not a member of its group any more: it is lost");
}

TEST(GenerationsTest, MembersThatWereAskedToMeetHaveMetOnceAllDid) {
  Generations generations([](const control::GroupReady&) { return Status(); });
  EXPECT_FALSE(generations.WantsToMeet());
  generations.OnMeet();
  generations.On(Formed(1));
  EXPECT_TRUE(generations.WantsToMeet()) << "not all were after a step";
  control::FormedGroup met = Formed(2);
  met.admits = true;
  generations.On(met);
  EXPECT_FALSE(generations.WantsToMeet());
}

}  // namespace
}  // namespace tfos::node
