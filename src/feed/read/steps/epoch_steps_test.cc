#include "feed/read/steps/epoch_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace tfos::feed {
namespace {

using Move = EpochSteps::Move;

const BatchOptions kBatchesOfTen = {.rows = 10};

StepGrant Granted(std::uint64_t steps) {
  return {.queue = "input", .granted = steps, .missing = {}};
}

/// All nodes have got all their rows.
StepGrant Final(std::uint64_t steps, std::uint64_t longest) {
  return {.queue = "input",
          .granted = steps,
          .final = true,
          .longest = longest,
          .ending = true,
          .missing = {}};
}

class EpochStepsTest : public ::testing::Test {
 protected:
  Move Next(const StepGrant& grant, const EpochSteps::Ahead& ahead) const {
    EXPECT_TRUE(steps_.IsEnough(grant, ahead));
    return steps_.Next(grant, ahead, kBatchesOfTen);
  }
  bool IsOver(Remainder remainder, const StepGrant& grant, std::uint64_t rows) const {
    return steps_.IsOver(remainder, grant, {.rows = rows, .epoch_over = true}, kBatchesOfTen);
  }

  EpochSteps steps_{"input", 3};
};

TEST(RemainderTest, RemaindersHaveNames) {
  EXPECT_EQ(RemainderFrom("none").value(), Remainder::kNone);
  EXPECT_EQ(RemainderFrom("join").value(), Remainder::kJoin);
  EXPECT_EQ(RemainderFrom("drop").value(), Remainder::kDrop);
  EXPECT_EQ(RemainderFrom("pad").value(), Remainder::kPad);
  const Status other = RemainderFrom("stretch").status();
  EXPECT_EQ(other.kind(), ErrorKind::kBadInput);
  EXPECT_EQ(other.message(), "remainder must be join, drop or pad, not 'stretch'");
}

TEST_F(EpochStepsTest, ReportsWhatItHasMadeAndWhatIsAhead) {
  steps_.OnBatch(10);
  EXPECT_EQ(steps_.ReportOf({.rows = 25, .epoch_over = true, .epoch = 4, .passable_rows = 20},
                            kBatchesOfTen),
            (StepReport{.queue = "input",
                        .epoch = 4,
                        .full_batches = 3,
                        .ended = true,
                        .batches = 4,
                        .rows = 35,
                        .passable_rows = 20,
                        .batch_rows = 10,
                        .made = 1}));
}

TEST_F(EpochStepsTest, RowsWhoseFeedersWaitForTheirReadingAreNotPassedOn) {
  const StepReport report =
      steps_.ReportOf({.rows = 25, .passable_rows = 20, .until_read = true}, kBatchesOfTen);
  EXPECT_EQ(report.passable_rows, 0u);
}

TEST_F(EpochStepsTest, EachStepNeedsItsTicket) {
  const EpochSteps::Ahead ahead{.rows = 25};
  EXPECT_FALSE(steps_.IsEnough(Granted(0), ahead));
  EXPECT_EQ(Next(Granted(1), ahead), Move::kStep);
  steps_.OnBatch(10);
  EXPECT_FALSE(steps_.IsEnough(Granted(1), ahead));
  EXPECT_EQ(Next(Granted(2), ahead), Move::kStep);
}

TEST_F(EpochStepsTest, OnceANodeHasEndedTheOthersLookToTheirEnd) {
  StepGrant ending = Granted(0);
  ending.ending = true;
  EXPECT_EQ(Next(ending, {.rows = 25}), Move::kLookToEnd);
  EXPECT_FALSE(steps_.IsEnough(ending, {.rows = 25, .epoch_over = true})) << "that is reported";
}

TEST_F(EpochStepsTest, PassesRowsOnBeforeTheNextStep) {
  StepGrant grant = Final(3, 3);
  grant.passes = {{.from = 1, .rows = 9, .to = {.node_id = 2}},
                  {.from = 3, .rows = 5, .to = {.node_id = 1}},
                  {.from = 3, .rows = 2, .to = {.node_id = 2}}};
  const EpochSteps::Ahead ahead{.rows = 37, .epoch_over = true};
  EXPECT_EQ(Next(grant, ahead), Move::kPassOn);
  EXPECT_EQ(steps_.RestToPass(grant)->to.node_id, 1u);
  EXPECT_EQ(steps_.RestToPass(grant)->rows, 5u);
  EXPECT_TRUE(steps_.MayReport());
  steps_.OnPassed(1, 3);
  EXPECT_FALSE(steps_.MayReport()) << "the coordinator counts those rows already";
  EXPECT_EQ(steps_.RestToPass(grant)->rows, 2u);
  steps_.OnPassed(1, 2);
  EXPECT_EQ(steps_.RestToPass(grant)->to.node_id, 2u);
  steps_.OnPassed(2, 2);
  EXPECT_FALSE(steps_.RestToPass(grant));
  steps_.EndPassing();
  EXPECT_EQ(Next(grant, ahead), Move::kStep);
}

TEST_F(EpochStepsTest, TakesRowsOverOnceItHasNoFullBatch) {
  StepGrant grant = Final(2, 2);
  grant.passes = {{.from = 1, .rows = 9, .to = {.node_id = 3}},
                  {.from = 2, .rows = 4, .to = {.node_id = 3}}};
  steps_.EndPassing();
  EXPECT_EQ(Next(grant, {.rows = 12, .epoch_over = true}), Move::kStep)
      << "the node that gives may be in the same step";
  steps_.OnBatch(10);
  EXPECT_EQ(Next(grant, {.rows = 2, .epoch_over = true}), Move::kTakeOver);
  EXPECT_EQ(steps_.RestToTakeOver(grant), 13u);
  steps_.OnTaken(1, 9);
  EXPECT_EQ(steps_.RestToTakeOver(grant), 4u);
  grant.passes.pop_back();
  EXPECT_EQ(steps_.RestToTakeOver(grant), 0u) << "the other one has left";
  steps_.EndTaking();
  EXPECT_EQ(Next(grant, {.rows = 11, .epoch_over = true}), Move::kStep);
}

TEST_F(EpochStepsTest, WaitsForANodesRowsThoughOneThatHasLeftHadBroughtAsMany) {
  StepGrant grant = Final(2, 2);
  grant.passes = {{.from = 1, .rows = 2, .to = {.node_id = 3}},
                  {.from = 2, .rows = 2, .to = {.node_id = 3}}};
  steps_.OnTaken(1, 2);
  EXPECT_EQ(steps_.RestToTakeOver(grant), 2u);
  grant.passes.erase(grant.passes.begin());  // Node 1 is lost.
  EXPECT_EQ(steps_.RestToTakeOver(grant), 2u);
  steps_.OnTaken(2, 2);
  EXPECT_EQ(steps_.RestToTakeOver(grant), 0u);
}

TEST_F(EpochStepsTest, AStopLeavesRowsThatHaveNoTicket) {
  const StepGrant stopped{
      .queue = "input", .granted = 1, .final = true, .longest = 1, .missing = {}};
  steps_.EndPassing();
  EXPECT_EQ(Next(stopped, {.rows = 25}), Move::kStep) << "another node may have begun it";
  steps_.OnBatch(10);
  EXPECT_EQ(Next(stopped, {.rows = 15}), Move::kStop);
}

TEST_F(EpochStepsTest, RemaindersEndAnEpochDifferently) {
  steps_.OnBatch(10);
  EXPECT_FALSE(IsOver(Remainder::kDrop, Final(2, 3), 10));
  EXPECT_TRUE(IsOver(Remainder::kDrop, Final(2, 3), 9));
  EXPECT_TRUE(IsOver(Remainder::kDrop, Final(1, 3), 10));
  EXPECT_FALSE(IsOver(Remainder::kPad, Final(1, 2), 0));
  EXPECT_TRUE(IsOver(Remainder::kPad, Final(1, 1), 0));
  EXPECT_FALSE(IsOver(Remainder::kJoin, Final(1, 2), 1));
  EXPECT_TRUE(IsOver(Remainder::kJoin, Final(1, 2), 0));
  EXPECT_TRUE(steps_.IsOver(Remainder::kPad, Final(1, 2), {.feed_over = true}, kBatchesOfTen));
  EXPECT_TRUE(steps_.IsOver(Remainder::kJoin, Final(1, 2), {.rows = 9, .epoch_over = true},
                            {.rows = 10, .drop_remainder = true}));
}

TEST_F(EpochStepsTest, AnEpochBeginsWithNothing) {
  StepGrant grant = Final(1, 1);
  grant.passes = {{.from = 3, .rows = 5, .to = {.node_id = 1}},
                  {.from = 2, .rows = 4, .to = {.node_id = 3}}};
  steps_.OnBatch(10);
  steps_.OnPassed(1, 5);
  steps_.EndPassing();
  steps_.OnTaken(2, 4);
  steps_.EndTaking();
  steps_.BeginEpoch();
  EXPECT_EQ(steps_.made(), 0u);
  EXPECT_TRUE(steps_.MayReport());
  EXPECT_EQ(steps_.RestToPass(grant)->rows, 5u);
  EXPECT_EQ(steps_.RestToTakeOver(grant), 4u);
  EXPECT_EQ(Next(grant, {.rows = 12, .epoch_over = true}), Move::kPassOn);
  EXPECT_EQ(steps_.ReportOf({.rows = 1}, kBatchesOfTen).rows, 1u);
}

}  // namespace
}  // namespace tfos::feed
