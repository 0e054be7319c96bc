#include "control/coordinator/step_ticket_office.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfos::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const StepTicketOffice::Members kBoth = {{0, "worker:0"}, {1, "worker:1"}};

StepReport Has(std::int64_t full_batches, int epoch = 0) {
  return {.queue = "input", .epoch = epoch, .full_batches = full_batches, .batches = full_batches};
}

StepReport Ended(std::int64_t full_batches, std::int64_t batches, int epoch = 0) {
  return {.queue = "input",
          .epoch = epoch,
          .full_batches = full_batches,
          .ended = true,
          .batches = batches};
}

TEST(StepTicketOfficeTest, GrantsWhatEveryNodeHas) {
  StepTicketOffice office;
  const auto first = office.Report(0, Has(5), kBoth);
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].granted, 0);
  EXPECT_THAT(first[0].missing, ElementsAre("worker:1"));
  const auto second = office.Report(1, Has(3), kBoth);
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(second[0].granted, 3);
  EXPECT_FALSE(second[0].closed);
  EXPECT_THAT(second[0].missing, IsEmpty());
}

TEST(StepTicketOfficeTest, SaysNothingThatChangesNothing) {
  StepTicketOffice office;
  office.Report(0, Has(5), kBoth);
  office.Report(1, Has(3), kBoth);
  EXPECT_THAT(office.Report(0, Has(5), kBoth), IsEmpty());
  EXPECT_THAT(office.Report(0, Has(6), kBoth), SizeIs(1));  // The longest has grown.
}

TEST(StepTicketOfficeTest, ClosesWhenAllHaveEnded) {
  StepTicketOffice office;
  office.Report(0, Ended(5, 6), kBoth);
  const auto closed = office.Report(1, Ended(3, 3), kBoth);
  ASSERT_THAT(closed, SizeIs(1));
  EXPECT_TRUE(closed[0].closed);
  EXPECT_EQ(closed[0].granted, 3);
  EXPECT_EQ(closed[0].longest, 6);
}

TEST(StepTicketOfficeTest, AGrantIsFinalOnceAnEndedNodeHasNoMore) {
  StepTicketOffice office;
  office.Report(0, Has(26), kBoth);  // And perhaps many more: it says so when it has got them.
  const auto granted = office.Report(1, Ended(10, 11), kBoth);
  ASSERT_THAT(granted, SizeIs(1));
  EXPECT_EQ(granted[0].granted, 10);
  EXPECT_TRUE(granted[0].final);
  EXPECT_FALSE(granted[0].closed);
  EXPECT_EQ(granted[0].longest, 26);
}

TEST(StepTicketOfficeTest, ANodeThatLeavesBeforeItHasEndedIsNotWaitedFor) {
  StepTicketOffice office;
  office.Report(0, Ended(5, 5), kBoth);
  const auto closed = office.MembersChanged({{0, "worker:0"}});
  ASSERT_THAT(closed, SizeIs(1));
  EXPECT_TRUE(closed[0].closed);
  EXPECT_EQ(closed[0].granted, 5);
}

TEST(StepTicketOfficeTest, ANodeThatHasEndedBindsTheOthersWhenItHasLeft) {
  StepTicketOffice office;
  office.Report(0, Ended(10, 10), kBoth);
  office.Report(1, Ended(12, 12), kBoth);
  EXPECT_THAT(office.MembersChanged({{1, "worker:1"}}), IsEmpty()) << "10 stay final";
}

TEST(StepTicketOfficeTest, AnEpochIsForgottenWhenEveryNodeHasLeftIt) {
  StepTicketOffice office;
  office.Report(0, Ended(0, 0, 0), kBoth);
  office.Report(0, Has(1, 1), kBoth);
  office.Report(0, Has(1, 5), kBoth);  // However far one node is ahead.
  EXPECT_TRUE(office.Report(1, Has(3, 0), kBoth)[0].final);
  office.Report(1, Has(1, 5), kBoth);
  const auto again = office.Report(1, Has(3, 0), kBoth);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_THAT(again[0].missing, ElementsAre("worker:0"));
}

TEST(StepTicketOfficeTest, AGrantNeverShrinks) {
  StepTicketOffice office;
  office.Report(0, Has(5), kBoth);
  office.Report(1, Has(4), kBoth);
  // A node that comes to it late: nothing that was begun can be taken back.
  const auto three = office.MembersChanged({{0, "worker:0"}, {1, "worker:1"}, {2, "worker:2"}});
  ASSERT_THAT(three, SizeIs(1));
  EXPECT_EQ(three[0].granted, 4);
}

TEST(StepTicketOfficeTest, EpochsAndQueuesAreApart) {
  StepTicketOffice office;
  office.Report(0, Ended(5, 5), kBoth);
  office.Report(0, Has(1, 1), kBoth);
  const auto closed = office.Report(1, Ended(2, 2), kBoth);
  ASSERT_THAT(closed, SizeIs(1));
  EXPECT_EQ(closed[0].epoch, 0);
  EXPECT_EQ(closed[0].granted, 2);
  StepReport validation = Has(7);
  validation.queue = "validation";
  EXPECT_EQ(office.Report(0, validation, kBoth)[0].granted, 0);
}

}  // namespace
}  // namespace tfos::control
