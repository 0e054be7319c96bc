#include "control/coordinator/roster/generation_office.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tfos::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GroupMember Worker(int rank) {
  return {.rank = rank,
          .name = "worker:" + std::to_string(rank) + " on host h",
          .address = "10.0.0.6",
          .port = 2222 + rank};
}

const GenerationOffice::Members kThree = {{0, Worker(0)}, {1, Worker(1)}, {2, Worker(2)}};
const GenerationOffice::Members kTwo = {{0, Worker(0)}, {2, Worker(2)}};
const GenerationOffice::Members kOne = {{2, Worker(2)}};

GroupReady For(int generation, std::int64_t committed = 5) {
  return {.generation = generation, .committed = committed, .leaves = false, .reason = "it broke"};
}

GroupReady Leaves(int generation, std::int64_t committed) {
  return {.generation = generation, .committed = committed, .leaves = true, .reason = ""};
}

TEST(GenerationOfficeTest, FormsWhenAllThatAreLeftAreReady) {
  GenerationOffice office;
  const auto opened = office.Lost("worker:1 is lost", kTwo);
  ASSERT_TRUE(opened.regroup);
  EXPECT_EQ(*opened.regroup, (Regroup{.generation = 1, .reason = "worker:1 is lost"}));
  EXPECT_FALSE(office.Ready(2, For(1, 7), kTwo).formed);
  const auto formed = office.Ready(0, For(1, 6), kTwo).formed;
  ASSERT_TRUE(formed);
  EXPECT_EQ(*formed,
            (FormedGroup{.generation = 1, .committed = 7, .members = {Worker(0), Worker(2)}}));
  EXPECT_FALSE(office.gathering());
}

TEST(GenerationOfficeTest, AMemberThatSeesItFirstOpensTheNextGeneration) {
  GenerationOffice office;
  const auto opened = office.Ready(0, For(1), kThree);
  ASSERT_TRUE(opened.regroup);
  EXPECT_EQ(opened.regroup->reason, "it broke");
  EXPECT_FALSE(office.Ready(2, For(1), kThree).formed) << "worker:1 may be alive";
  const auto lost = office.Lost("worker:1 is lost", kTwo);
  EXPECT_FALSE(lost.regroup) << "it was opened before";
  EXPECT_TRUE(lost.formed);
}

TEST(GenerationOfficeTest, ASecondLossWhileItGathersIsNotWaitedFor) {
  GenerationOffice office;
  office.Lost("worker:1 is lost", kTwo);
  office.Ready(2, For(1), kTwo);
  const auto second = office.Lost("worker:0 is lost", kOne);
  ASSERT_TRUE(second.formed);
  EXPECT_THAT(second.formed->members, ElementsAre(Worker(2)));
  EXPECT_EQ(second.formed->generation, 1);
}

TEST(GenerationOfficeTest, WhatComesLateChangesNothing) {
  GenerationOffice office;
  office.Lost("worker:1 is lost", kTwo);
  office.Ready(0, For(1), kTwo);
  office.Ready(2, For(1), kTwo);
  const auto late = office.Ready(0, For(1), kTwo);
  EXPECT_FALSE(late.regroup || late.formed || late.failure);
  office.Lost("worker:0 is lost", kOne);
  EXPECT_FALSE(office.Ready(2, For(1), kOne).formed) << "of the generation before";
  EXPECT_TRUE(office.Ready(2, For(2), kOne).formed);
}

TEST(GenerationOfficeTest, ALeaverIsNoMemberAndItsCountCounts) {
  GenerationOffice office;
  EXPECT_TRUE(office.Ready(0, Leaves(1, 9), kThree).regroup);
  office.Ready(1, For(1, 8), kThree);
  const auto formed = office.Ready(2, For(1, 8), kThree).formed;
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->committed, 9);
  EXPECT_THAT(formed->members, ElementsAre(Worker(1), Worker(2)));
}

TEST(GenerationOfficeTest, AMemberThatEndsIsNotWaitedFor) {
  GenerationOffice office;
  office.Lost("worker:1 is lost", kTwo);
  office.Ready(2, For(1), kTwo);
  EXPECT_TRUE(office.MembersChanged(kOne).formed);
}

TEST(GenerationOfficeTest, NothingIsFormedOfNobody) {
  GenerationOffice office;
  office.Lost("worker:1 is lost", kOne);
  EXPECT_FALSE(office.Ready(2, Leaves(1, 9), kOne).formed);
  EXPECT_FALSE(office.gathering());
}

TEST(GenerationOfficeTest, MembersThatGetNowhereAreAFailure) {
  GenerationOffice office;
  std::optional<std::string> failure;
  int formed = 0;
  for (int generation = 1; !failure; ++generation) {
    ASSERT_LT(generation, 10);
    office.Ready(0, For(generation), kTwo);
    auto outcome = office.Ready(2, For(generation), kTwo);
    failure = outcome.failure;
    formed += outcome.formed ? 1 : 0;
  }
  EXPECT_EQ(formed, 3);
  EXPECT_THAT(*failure, HasSubstr("it broke"));
}

TEST(GenerationOfficeTest, MembersThatGetOnMayTryAgain) {
  GenerationOffice office;
  for (int generation = 1; generation < 10; ++generation) {
    office.Ready(0, For(generation, generation), kTwo);
    const auto outcome = office.Ready(2, For(generation, generation), kTwo);
    EXPECT_TRUE(outcome.formed);
  }
}

}  // namespace
}  // namespace tfos::control
