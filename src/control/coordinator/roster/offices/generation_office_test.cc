#include "control/coordinator/roster/offices/generation_office.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tfos::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GroupMember Worker(int rank) {
  return {.rank = rank,
          .name = "worker:" + std::to_string(rank) + " on host h",
          .address = "10.0.0.6",
          .port = 2222 + rank};
}

const GenerationOffice::Nodes kThree = {{0, Worker(0)}, {1, Worker(1)}, {2, Worker(2)}};
const GenerationOffice::Nodes kTwo = {{0, Worker(0)}, {2, Worker(2)}};
const GenerationOffice::Nodes kOne = {{2, Worker(2)}};

/// An office that has formed a generation of three members.
GenerationOffice Formed(int least = 1) {
  GenerationOffice office(least);
  office.Begin(kThree);
  return office;
}

GroupReady For(int generation, std::int64_t committed = 5) {
  return {.generation = generation, .committed = committed, .leaves = false, .reason = "it broke"};
}

GroupReady Leaves(int generation, std::int64_t committed) {
  return {.generation = generation, .committed = committed, .leaves = true, .reason = ""};
}

TEST(GenerationOfficeTest, FormsWhenAllThatAreLeftAreReady) {
  GenerationOffice office = Formed();
  const auto opened = office.Lost(1, "worker:1 is lost", kTwo);
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
  GenerationOffice office = Formed();
  const auto opened = office.Ready(0, For(1), kThree);
  ASSERT_TRUE(opened.regroup);
  EXPECT_EQ(opened.regroup->reason, "it broke");
  EXPECT_FALSE(office.Ready(2, For(1), kThree).formed) << "worker:1 may be alive";
  const auto lost = office.Lost(1, "worker:1 is lost", kTwo);
  EXPECT_FALSE(lost.regroup) << "it was opened before";
  EXPECT_TRUE(lost.formed);
}

TEST(GenerationOfficeTest, ASecondLossWhileItGathersIsNotWaitedFor) {
  GenerationOffice office = Formed();
  office.Lost(1, "worker:1 is lost", kTwo);
  office.Ready(2, For(1), kTwo);
  const auto second = office.Lost(0, "worker:0 is lost", kOne);
  ASSERT_TRUE(second.formed);
  EXPECT_THAT(second.formed->members, ElementsAre(Worker(2)));
  EXPECT_EQ(second.formed->generation, 1);
}

TEST(GenerationOfficeTest, WhatComesLateChangesNothing) {
  GenerationOffice office = Formed();
  office.Lost(1, "worker:1 is lost", kTwo);
  office.Ready(0, For(1), kTwo);
  office.Ready(2, For(1), kTwo);
  const auto late = office.Ready(0, For(1), kTwo);
  EXPECT_FALSE(late.regroup || late.formed || late.failure);
  office.Lost(0, "worker:0 is lost", kOne);
  EXPECT_FALSE(office.Ready(2, For(1), kOne).formed) << "of the generation before";
  EXPECT_TRUE(office.Ready(2, For(2), kOne).formed);
}

TEST(GenerationOfficeTest, ALeaverIsNoMemberAndItsCountCounts) {
  GenerationOffice office = Formed();
  EXPECT_TRUE(office.Ready(0, Leaves(1, 9), kThree).regroup);
  office.Ready(1, For(1, 8), kThree);
  const auto formed = office.Ready(2, For(1, 8), kThree).formed;
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->committed, 9);
  EXPECT_THAT(formed->members, ElementsAre(Worker(1), Worker(2)));
}

TEST(GenerationOfficeTest, AMemberThatEndsIsNotWaitedFor) {
  GenerationOffice office = Formed();
  office.Lost(1, "worker:1 is lost", kTwo);
  office.Ready(2, For(1), kTwo);
  EXPECT_TRUE(office.Ended(0, kOne).formed);
}

TEST(GenerationOfficeTest, NothingIsFormedOfNobody) {
  GenerationOffice office = Formed();
  office.Lost(1, "worker:1 is lost", kOne);
  EXPECT_FALSE(office.Ready(2, Leaves(1, 9), kOne).formed);
  EXPECT_FALSE(office.gathering());
}

TEST(GenerationOfficeTest, MembersThatGetNowhereAreAFailure) {
  GenerationOffice office = Formed();
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
  GenerationOffice office = Formed();
  for (int generation = 1; generation < 10; ++generation) {
    office.Ready(0, For(generation, generation), kTwo);
    const auto outcome = office.Ready(2, For(generation, generation), kTwo);
    EXPECT_TRUE(outcome.formed);
  }
}

/// With a fourth node that has come late.
const GenerationOffice::Nodes kFour = {
    {0, Worker(0)}, {1, Worker(1)}, {2, Worker(2)}, {3, Worker(3)}};

GroupReady Joins() {
  return {.generation = 1, .committed = 0, .leaves = false, .reason = "it joins", .lacks = 2};
}

GroupReady Admits(int generation, std::int64_t committed = 5) {
  GroupReady ready = For(generation, committed);
  ready.admits = true;
  return ready;
}

TEST(GenerationOfficeTest, ANewcomerComesInOnceAllMembersAreAfterAStep) {
  GenerationOffice office = Formed();
  const auto came = office.Ready(3, Joins(), kFour);
  EXPECT_FALSE(came.regroup || came.formed);
  ASSERT_TRUE(came.meet);
  EXPECT_EQ(came.meet->reason, "worker:3 on host h waits to join");
  EXPECT_THAT(came.members, ElementsAre(0, 1, 2)) << "these are told";
  EXPECT_TRUE(office.Ready(0, Admits(1), kFour).regroup);
  EXPECT_EQ(office.DescribeWait(kFour),
            "worker:3 on host h waits to join; the others wait for worker:1 on host h, worker:2 on "
            "host h to end its step");
  office.Ready(2, Admits(1), kFour);
  const auto formed = office.Ready(1, Admits(1), kFour);
  ASSERT_TRUE(formed.formed);
  EXPECT_TRUE(formed.formed->admits);
  EXPECT_THAT(formed.formed->members, ElementsAre(Worker(0), Worker(1), Worker(2), Worker(3)));
  EXPECT_THAT(formed.members, ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(formed.meet);
  EXPECT_EQ(office.DescribeWait(kFour), "");
}

TEST(GenerationOfficeTest, AMemberInTheMiddleOfAStepLetsNobodyIn) {
  GenerationOffice office = Formed();
  office.Ready(3, Joins(), kFour);
  office.Ready(0, Admits(1), kFour);
  office.Ready(1, For(1), kFour);
  const auto formed = office.Ready(2, Admits(1), kFour);
  ASSERT_TRUE(formed.formed);
  EXPECT_FALSE(formed.formed->admits);
  EXPECT_THAT(formed.formed->members, ElementsAre(Worker(0), Worker(1), Worker(2)));
  EXPECT_TRUE(formed.meet) << "they are asked again";
}

TEST(GenerationOfficeTest, ANewcomerThatIsLostIsNotWaitedFor) {
  GenerationOffice office = Formed();
  office.Ready(3, Joins(), kFour);
  EXPECT_FALSE(office.Lost(3, "worker:3 is lost", kThree).regroup);
  for (const int node : {0, 1}) office.Ready(node, Admits(1), kThree);
  const auto formed = office.Ready(2, Admits(1), kThree);
  ASSERT_TRUE(formed.formed);
  EXPECT_THAT(formed.formed->members, ElementsAre(Worker(0), Worker(1), Worker(2)));
}

TEST(GenerationOfficeTest, ALostNodeThatComesAgainIsANewcomer) {
  GenerationOffice office = Formed();
  office.Lost(1, "worker:1 is lost", kTwo);
  for (const int node : {0, 2}) office.Ready(node, For(1), kTwo);
  EXPECT_FALSE(office.IsMember(1));
  EXPECT_TRUE(office.Ready(1, Joins(), kThree).meet);
  office.Ready(0, Admits(2), kThree);
  EXPECT_TRUE(office.Ready(2, Admits(2), kThree).formed->admits);
  EXPECT_TRUE(office.IsMember(1));
}

TEST(GenerationOfficeTest, MembersThatAreTooFewEndTheirStepAndWait) {
  GenerationOffice office = Formed(/*least=*/3);
  office.Lost(1, "worker:1 is lost", kTwo);
  office.Ready(0, For(1), kTwo);
  const auto formed = office.Ready(2, For(1), kTwo);
  ASSERT_TRUE(formed.formed) << "to end the step";
  ASSERT_TRUE(formed.meet);
  EXPECT_EQ(formed.meet->reason, "2 of at least 3 nodes are there");
  office.Ready(0, Admits(2, 6), kTwo);
  EXPECT_FALSE(office.Ready(2, Admits(2, 6), kTwo).formed);
  EXPECT_TRUE(office.gathering());
  const auto complete = office.Ready(1, Joins(), kThree);
  ASSERT_TRUE(complete.formed);
  EXPECT_EQ(complete.formed->committed, 6) << "a newcomer has committed nothing";
  EXPECT_FALSE(office.is_below());
}

TEST(GenerationOfficeTest, InTheMiddleOfAnEpochNobodyComesIn) {
  GenerationOffice office = Formed();
  office.SetOpen(false, kThree);
  EXPECT_FALSE(office.Ready(3, Joins(), kFour).meet);
  EXPECT_TRUE(office.anyone_waits());
  for (const int node : {0, 1}) office.Ready(node, Admits(1), kFour);
  const auto without = office.Ready(2, Admits(1), kFour);
  ASSERT_TRUE(without.formed);
  EXPECT_THAT(without.formed->members, ElementsAre(Worker(0), Worker(1), Worker(2)));
  EXPECT_THAT(without.came, IsEmpty());
  EXPECT_TRUE(office.SetOpen(true, kFour).meet) << "then it may";
  for (const int node : {0, 1}) office.Ready(node, Admits(2), kFour);
  const auto with = office.Ready(2, Admits(2), kFour);
  ASSERT_TRUE(with.formed);
  EXPECT_THAT(with.came, ElementsAre(3));
  EXPECT_FALSE(office.anyone_waits());
}

TEST(GenerationOfficeTest, MembersThatAreTooFewGoOnWhereNobodyComesIn) {
  GenerationOffice office = Formed(/*least=*/3);
  office.Lost(1, "worker:1 is lost", kTwo);
  for (const int node : {0, 2}) office.Ready(node, For(1), kTwo);
  office.Ready(0, Admits(2, 6), kTwo);
  EXPECT_FALSE(office.Ready(2, Admits(2, 6), kTwo).formed) << "they wait";
  EXPECT_TRUE(office.SetOpen(false, kTwo).formed);
  office.Ready(0, Admits(3, 7), kTwo);
  EXPECT_TRUE(office.Ready(2, Admits(3, 7), kTwo).formed);
}

TEST(GenerationOfficeTest, WithoutAnybodyWhoHasTheStateItFails) {
  GenerationOffice office = Formed();
  office.Ready(3, Joins(), kFour);
  for (const int node : {0, 1, 2}) office.Ready(node, Admits(1), kFour);
  const GenerationOffice::Nodes only = {{3, Worker(3)}};
  for (const int node : {0, 1, 2}) office.Lost(node, "it is lost", only);
  GroupReady stateless = Joins();
  stateless.generation = 2;
  stateless.committed = 5;
  EXPECT_THAT(*office.Ready(3, stateless, only).failure, HasSubstr("have not got the weights yet"));
}

TEST(GenerationOfficeTest, AStateThatOthersHaveReturnedFromIsThere) {
  GenerationOffice office = Formed();
  office.Ready(3, Joins(), kFour);
  for (const int node : {0, 1, 2}) office.Ready(node, Admits(1), kFour);
  const GenerationOffice::Nodes only = {{3, Worker(3)}};
  office.Ready(0, Leaves(2, 6), kFour);
  for (const int node : {0, 1, 2}) office.Lost(node, "it is lost", only);
  GroupReady computed = Joins();
  computed.generation = 2;
  computed.committed = 5;
  computed.lacks = 1;
  const auto formed = office.Ready(3, computed, only);
  EXPECT_FALSE(formed.failure);
  EXPECT_TRUE(formed.formed);
}

}  // namespace
}  // namespace tfos::control
