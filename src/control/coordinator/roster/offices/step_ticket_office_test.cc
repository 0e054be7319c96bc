#include "control/coordinator/roster/offices/step_ticket_office.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

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
  EXPECT_FALSE(second[0].final);
  EXPECT_THAT(second[0].missing, IsEmpty());
}

TEST(StepTicketOfficeTest, SaysNothingThatChangesNothing) {
  StepTicketOffice office;
  office.Report(0, Has(5), kBoth);
  office.Report(1, Has(3), kBoth);
  EXPECT_THAT(office.Report(0, Has(5), kBoth), IsEmpty());
  EXPECT_THAT(office.Report(0, Has(6), kBoth), SizeIs(1));  // The longest has grown.
}

TEST(StepTicketOfficeTest, OnceStoppedItGrantsNothingMore) {
  StepTicketOffice office;
  office.Report(0, Has(5), kBoth);
  office.Report(1, Has(3), kBoth);
  office.Report(0, Has(1, 1), kBoth);
  const auto stopped = office.Stop(kBoth);
  ASSERT_THAT(stopped, SizeIs(2));
  for (const StepTickets& tickets : stopped) {
    EXPECT_TRUE(tickets.final && !tickets.ending);
    EXPECT_EQ(tickets.granted, tickets.epoch == 0 ? 3 : 0);
    EXPECT_EQ(tickets.longest, tickets.granted) << "nodes that pad end with it, too";
    EXPECT_THAT(tickets.missing, IsEmpty());
  }
  EXPECT_THAT(office.Report(1, Has(9), kBoth), IsEmpty());
  EXPECT_THAT(office.Report(1, Ended(9, 9), kBoth), IsEmpty());
  EXPECT_THAT(office.MembersChanged({{0, "worker:0"}}), IsEmpty());
  EXPECT_THAT(office.Stop(kBoth), IsEmpty());
  const auto another = office.Report(0, Has(4, 2), kBoth);
  ASSERT_THAT(another, SizeIs(1));
  EXPECT_TRUE(another[0].final);
  EXPECT_EQ(another[0].granted, 0);
}

TEST(StepTicketOfficeTest, WhatWasFinalStaysSoWhenItIsStopped) {
  StepTicketOffice office;
  office.Report(0, Ended(5, 6), kBoth);
  const auto last = office.Report(1, Ended(3, 3), kBoth);
  ASSERT_THAT(last, SizeIs(1));
  EXPECT_EQ(last[0].longest, 6);
  EXPECT_THAT(office.Stop(kBoth), IsEmpty());
}

StepReport Waits(std::int64_t full_batches, std::int64_t made) {
  StepReport report = Has(full_batches);
  report.made = made;
  report.waits = true;
  return report;
}

TEST(StepTicketOfficeTest, AnEpochIsDrainedWhenNobodyGetsFurther) {
  StepTicketOffice office;
  EXPECT_FALSE(office.IsDrained("input", 0, kBoth));
  office.Report(0, Waits(0, 0), kBoth);
  EXPECT_FALSE(office.IsDrained("input", 0, kBoth)) << "nothing is known of the other";
  office.Report(1, Has(2), kBoth);
  EXPECT_FALSE(office.IsDrained("input", 0, kBoth)) << "the other does not wait";
  office.Report(1, Waits(2, 0), kBoth);
  EXPECT_TRUE(office.IsDrained("input", 0, kBoth)) << "it has rows, and no ticket";
  office.Report(0, Has(1), kBoth);
  EXPECT_FALSE(office.IsDrained("input", 0, kBoth)) << "one step is granted";
  office.Report(0, Waits(1, 1), kBoth);
  EXPECT_FALSE(office.IsDrained("input", 0, kBoth)) << "the other has not made it";
  office.Report(1, Waits(2, 1), kBoth);
  EXPECT_TRUE(office.IsDrained("input", 0, kBoth));
  EXPECT_FALSE(office.IsDrained("input", 1, kBoth));
  EXPECT_FALSE(office.IsDrained("other", 0, kBoth));
}

TEST(StepTicketOfficeTest, AnEpochIsNotDrainedBeforeAllHaveLookedAgain) {
  StepTicketOffice office;
  const auto report = [&](int node_id, int looked) {
    StepReport waits = Waits(0, 0);
    waits.looked = looked;
    office.Report(node_id, waits, kBoth);
  };
  report(0, 0);
  report(1, 0);
  EXPECT_TRUE(office.IsDrained("input", 0, kBoth));
  const auto told = office.Look("input", 0, 3, kBoth);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].look, 3);
  EXPECT_FALSE(office.IsDrained("input", 0, kBoth)) << "rows may have come since";
  report(1, 3);
  EXPECT_FALSE(office.IsDrained("input", 0, kBoth));
  report(0, 3);
  EXPECT_TRUE(office.IsDrained("input", 0, kBoth));
  // Nobody has come to this epoch.
  EXPECT_EQ(office.Look("input", 1, 4, kBoth)[0].missing.size(), 2u);
  EXPECT_FALSE(office.IsDrained("input", 1, kBoth));
}

TEST(StepTicketOfficeTest, AnEpochIsLeftWhenANodeWaitsForAnotherQueueThatIsNotFedYet) {
  StepTicketOffice office;
  const auto validates = [&](int node_id, int epoch) {
    StepReport report = Waits(0, 0);
    report.queue = "validation";
    report.epoch = epoch;
    office.Report(node_id, report, kBoth);
  };
  office.Report(0, Has(3), kBoth);
  StepReport begins = Has(0);
  begins.queue = "other";
  office.Report(0, begins, kBoth);
  EXPECT_FALSE(office.IsLeft("input", kBoth)) << "it asks what the rows hold";
  validates(0, 0);
  EXPECT_TRUE(office.IsLeft("input", kBoth));
  EXPECT_FALSE(office.IsLeft("input", {{1, "worker:1"}})) << "the one that has is lost";
  office.EpochEnded("validation", 0);
  EXPECT_FALSE(office.IsLeft("input", kBoth)) << "it reads what it has got";
  validates(1, 1);
  EXPECT_TRUE(office.IsLeft("input", kBoth));
  EXPECT_FALSE(office.IsLeft("validation", kBoth)) << "nobody waits for input";
}

TEST(StepTicketOfficeTest, AnEpochHasBegunWhenANodeReportsOnItOrOnALaterOne) {
  StepTicketOffice office;
  office.Look("input", 2, 1, kBoth);
  EXPECT_FALSE(office.HasBegun("input", 2)) << "nobody reads it yet";
  office.Report(0, Has(0, 2), kBoth);
  EXPECT_TRUE(office.HasBegun("input", 1));
  EXPECT_TRUE(office.HasBegun("input", 2));
  EXPECT_FALSE(office.HasBegun("input", 3));
  EXPECT_FALSE(office.HasBegun("validation", 2));
}

TEST(StepTicketOfficeTest, NobodyWaitsForWhatANodeThatIsLostHasToMake) {
  StepTicketOffice office;
  office.Report(0, Waits(1, 1), kBoth);
  office.Report(1, Has(1), kBoth);
  EXPECT_FALSE(office.IsDrained("input", 0, kBoth));
  EXPECT_TRUE(office.IsDrained("input", 0, {{0, "worker:0"}}));
  EXPECT_TRUE(office.IsDrained("input", 7, {})) << "there is nobody to wait for";
}

TEST(StepTicketOfficeTest, ClosesWhenAllHaveEnded) {
  StepTicketOffice office;
  office.Report(0, Ended(5, 6), kBoth);
  const auto closed = office.Report(1, Ended(3, 3), kBoth);
  ASSERT_THAT(closed, SizeIs(1));
  EXPECT_TRUE(closed[0].final);
  EXPECT_EQ(closed[0].granted, 3);
  EXPECT_EQ(closed[0].longest, 6);
}

TEST(StepTicketOfficeTest, WhenANodeHasEndedTheOthersAreAskedForTheirRows) {
  StepTicketOffice office;
  office.Report(0, Has(26), kBoth);  // And perhaps many more: it says so when it has got them.
  const auto granted = office.Report(1, Ended(10, 11), kBoth);
  ASSERT_THAT(granted, SizeIs(1));
  EXPECT_EQ(granted[0].granted, 10);
  EXPECT_TRUE(granted[0].ending);
  EXPECT_FALSE(granted[0].final) << "it may get rows of the other one";
  EXPECT_EQ(granted[0].longest, 26);
}

StepReport EndedWith(std::int64_t rows, std::int64_t passable_rows, std::int64_t batch_rows = 10) {
  StepReport report = Ended(rows / batch_rows, (rows + batch_rows - 1) / batch_rows);
  report.rows = rows;
  report.passable_rows = passable_rows;
  report.batch_rows = batch_rows;
  return report;
}

RowPass Pass(int from, int to, std::int64_t rows) {
  return {.from = from, .to = to, .rows = rows, .address = {}, .feed = {}};
}

const StepTicketOffice::Members kThree = {{0, "worker:0"}, {1, "worker:1"}, {2, "worker:2"}};

TEST(StepTicketOfficeTest, AnEpochEndsEvenly) {
  StepTicketOffice office;
  office.Report(0, EndedWith(9, 9), kThree);
  office.Report(1, EndedWith(100, 90), kThree);
  const auto final = office.Report(2, EndedWith(0, 0), kThree);
  ASSERT_THAT(final, SizeIs(1));
  EXPECT_TRUE(final[0].final);
  EXPECT_THAT(final[0].passes, ElementsAre(Pass(1, 2, 36), Pass(1, 0, 27)));
  EXPECT_EQ(final[0].granted, 3);  // 37, 36 and 36 rows.
  EXPECT_EQ(final[0].longest, 4);
}

TEST(StepTicketOfficeTest, NothingIsPassedOnThatChangesNothing) {
  StepTicketOffice office;
  office.Report(0, EndedWith(101, 101), kBoth);
  const auto final = office.Report(1, EndedWith(108, 108), kBoth);
  ASSERT_THAT(final, SizeIs(1));
  EXPECT_THAT(final[0].passes, IsEmpty());
  EXPECT_EQ(final[0].granted, 10);
  EXPECT_EQ(final[0].longest, 11);
}

TEST(StepTicketOfficeTest, AWholeBatchMoreIsPassedOnEvenIfTheStepsComeOutEven) {
  StepTicketOffice office;
  office.Report(0, EndedWith(20, 20, 10), kBoth);
  const StepTickets last = office.Report(1, EndedWith(10, 10, 10), kBoth).back();
  ASSERT_THAT(last.passes, SizeIs(1));
  EXPECT_EQ(last.passes[0].rows, 5);
}

TEST(StepTicketOfficeTest, WhatCannotBePassedOnStays) {
  StepTicketOffice office;
  office.Report(0, EndedWith(100, 20), kBoth);
  const auto final = office.Report(1, EndedWith(0, 0), kBoth);
  EXPECT_THAT(final[0].passes, ElementsAre(Pass(0, 1, 20)));
  EXPECT_EQ(final[0].granted, 2);
  EXPECT_EQ(final[0].longest, 8);
}

TEST(StepTicketOfficeTest, BatchesOfDifferentSizesAreNotEvenedOut) {
  StepTicketOffice office;
  office.Report(0, EndedWith(100, 100), kBoth);
  const auto final = office.Report(1, EndedWith(8, 8, 4), kBoth);
  EXPECT_THAT(final[0].passes, IsEmpty());
  EXPECT_EQ(final[0].granted, 2);
}

TEST(StepTicketOfficeTest, ANodeThatHasLeftPassesNothingOn) {
  StepTicketOffice office;
  office.Report(0, EndedWith(100, 100), kBoth);
  ASSERT_THAT(office.Report(1, EndedWith(0, 0), kBoth)[0].passes, SizeIs(1));
  const auto left = office.MembersChanged({{1, "worker:1"}});
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_THAT(left[0].passes, IsEmpty());
  EXPECT_EQ(left[0].granted, 5) << "a grant never shrinks";
}

TEST(StepTicketOfficeTest, NothingIsPassedOnToANodeThatHasLeft) {
  StepTicketOffice office;
  office.Report(0, EndedWith(100, 100), kBoth);
  ASSERT_THAT(office.Report(1, EndedWith(0, 0), kBoth)[0].passes, SizeIs(1));
  const auto left = office.MembersChanged({{0, "worker:0"}});
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_THAT(left[0].passes, IsEmpty());
}

// Whatever the nodes have got: with full batches an epoch loses, and with padding it adds, fewer
// rows than a batch for each node.
TEST(StepTicketOfficeTest, TheBoundHoldsForRandomRows) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 5000; ++round) {
    const auto below = [&](std::int64_t limit) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
    };
    const std::int64_t nodes = 1 + below(6);
    const std::int64_t batch = 1 + below(50);
    StepTicketOffice::Members members;
    for (int i = 0; i < nodes; ++i) members.emplace(i, "worker");
    StepTicketOffice office;
    std::vector<std::int64_t> rows;
    std::int64_t all = 0;
    StepTickets last;
    for (int i = 0; i < nodes; ++i) {
      rows.push_back(below(3) == 0 ? 0 : below(1000));
      all += rows.back();
      // Fewer than a batch may be where nothing takes them from.
      const std::int64_t fixed = std::min(rows.back(), below(batch));
      last = office.Report(i, EndedWith(rows.back(), rows.back() - fixed, batch), members).back();
    }
    for (const RowPass& pass : last.passes) {
      rows[static_cast<std::size_t>(pass.from)] -= pass.rows;
      rows[static_cast<std::size_t>(pass.to)] += pass.rows;
      EXPECT_GT(pass.rows, 0);
    }
    for (const std::int64_t count : rows) {
      EXPECT_GE(count / batch, last.granted);
      EXPECT_LE(count, last.longest * batch);
    }
    EXPECT_LT(std::ranges::max(rows) - std::ranges::min(rows), std::max<std::int64_t>(batch, 2))
        << "apart, round " << round;
    EXPECT_LT(all - last.granted * batch * nodes, batch * nodes) << "lost, round " << round;
    EXPECT_LT(last.longest * batch * nodes - all, batch * nodes) << "added, round " << round;
  }
}

TEST(StepTicketOfficeTest, ANodeThatLeavesBeforeItHasEndedIsNotWaitedFor) {
  StepTicketOffice office;
  office.Report(0, Ended(5, 5), kBoth);
  const auto closed = office.MembersChanged({{0, "worker:0"}});
  ASSERT_THAT(closed, SizeIs(1));
  EXPECT_TRUE(closed[0].final);
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
  EXPECT_TRUE(office.Report(1, Has(3, 0), kBoth)[0].ending);
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
