#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "feed/read/steps/synchronous_batches_fixture.h"

namespace tfos::feed {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using namespace std::chrono_literals;

TEST_F(SynchronousBatchesTest, TellsThatTheProgramHasComeToAnEpochAndNotThatItWaits) {
  const Wait turn{.deadline = Deadline::After(std::chrono::seconds(10))};
  TestNode& node = *nodes_[0];
  EXPECT_TRUE(node.batches().TellEpoch(turn).ok());
  EXPECT_THAT(reports_, SizeIs(0)) << "nobody wants to hear of it";
  node.tickets().TellWaits();
  EXPECT_TRUE(node.batches().TellEpoch(turn).ok());
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].second.epoch, 0u);
  EXPECT_FALSE(reports_[0].second.waits) << "there may be rows";
}

TEST_F(SynchronousBatchesTest, TellsThatItWaitsWhereThatIsWanted) {
  TestNode& node = *nodes_[0];
  node.tickets().TellWaits();
  const auto next = [&] {
    return node.batches().Next(Remainder::kJoin, kTwoRows, {.deadline = Deadline::After({})});
  };
  const auto told = [&] {
    std::vector<std::array<std::uint64_t, 4>> reports;
    for (const auto& [i, report] : std::exchange(reports_, {})) {
      reports.push_back({report.full_batches, report.made, report.waits ? 1U : 0U,
                         static_cast<std::uint64_t>(report.looked)});
    }
    return reports;
  };
  using Told = std::vector<std::array<std::uint64_t, 4>>;
  EXPECT_FALSE(next().ok());
  EXPECT_EQ(told(), Told({{0, 0, 1, 0}})) << "there is no row";
  EXPECT_FALSE(next().ok());
  EXPECT_EQ(told(), Told()) << "that was said before";
  node.Feed(0, 5);
  EXPECT_FALSE(next().ok());
  EXPECT_EQ(told(), Told({{2, 0, 1, 0}})) << "there is no ticket";
  node.tickets().OnGrant({.queue = "input", .granted = 2, .missing = {}});
  EXPECT_TRUE(next().ok());
  EXPECT_TRUE(next().ok());
  EXPECT_EQ(told(), Told());
  EXPECT_FALSE(next().ok());
  EXPECT_EQ(told(), Told({{2, 2, 1, 0}})) << "one row makes no batch";
  node.tickets().OnGrant({.queue = "input", .granted = 2, .missing = {}, .look = 7});
  EXPECT_FALSE(next().ok());
  EXPECT_EQ(told(), Told({{2, 2, 1, 7}})) << "it is asked";
  node.Feed(0, 2);
  EXPECT_FALSE(next().ok());
  EXPECT_EQ(told(), Told({{3, 2, 1, 7}})) << "there is no ticket for another one";
  node.tickets().OnGrant({.queue = "input", .granted = 2, .missing = {}, .look = 8});
  EXPECT_FALSE(next().ok());
  EXPECT_EQ(told(), Told({{3, 2, 1, 8}}));
}

TEST_F(SynchronousBatchesTest, TellsOnceThatItWaitsForAnEpochThatIsReadAlone) {
  TestNode& node = *nodes_[0];
  node.tickets().TellWaits();
  const auto next = [&] {
    return node.batches().Next(Remainder::kNone, kTwoRows, {.deadline = Deadline::After(0s)});
  };
  EXPECT_FALSE(next().ok());
  EXPECT_FALSE(next().ok());
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].second, (StepReport{.queue = "input", .epoch = 0, .waits = true}));
  node.Feed(0, 3);
  EXPECT_TRUE(next().ok());
  EXPECT_FALSE(next().ok()) << "one row makes no batch";
  EXPECT_THAT(reports_, SizeIs(1));
}

TEST_F(SynchronousBatchesTest, DropGivesEveryNodeAsManyFullBatches) {
  const auto made = RunEpoch(Remainder::kDrop, 9, 5);
  EXPECT_THAT(made, Each(ElementsAre(2, 2)));
  EXPECT_EQ(nodes_[0]->reader().dropped_rows(), 5u);
  EXPECT_EQ(nodes_[1]->reader().dropped_rows(), 1u);
}

TEST_F(SynchronousBatchesTest, PadGivesEveryNodeAsManyBatchesAndUsesEveryRow) {
  const auto made = RunEpoch(Remainder::kPad, 9, 5);
  EXPECT_THAT(made[0], ElementsAre(2, 2, 2, 2, 1));
  EXPECT_THAT(made[1], ElementsAre(2, 2, 1, 0, 0));
  EXPECT_EQ(nodes_[0]->reader().dropped_rows() + nodes_[1]->reader().dropped_rows(), 0u);
}

TEST_F(SynchronousBatchesTest, ANodeWithoutARowOfTheEpochPadsOrMakesNone) {
  EXPECT_THAT(RunEpoch(Remainder::kPad, 3, 0)[1], ElementsAre(0, 0));
  EXPECT_THAT(RunEpoch(Remainder::kDrop, 3, 0), Each(SizeIs(0)));
}

TEST_F(SynchronousBatchesTest, EpochsFollowEachOther) {
  EXPECT_THAT(RunEpoch(Remainder::kDrop, 4, 6), Each(ElementsAre(2, 2)));
  EXPECT_THAT(RunEpoch(Remainder::kDrop, 2, 9), Each(ElementsAre(2)));
  EXPECT_THAT(RunEpoch(Remainder::kPad, 1, 2)[0], ElementsAre(1));
}

TEST_F(SynchronousBatchesTest, JoinUsesEveryRowAndAddsNone) {
  const auto made = RunEpoch(Remainder::kJoin, 6, 5);
  EXPECT_THAT(made[0], ElementsAre(2, 2, 2));
  EXPECT_THAT(made[1], ElementsAre(2, 2, 1));
  EXPECT_THAT(RunEpoch(Remainder::kJoin, 1, 0)[1], SizeIs(0));
  EXPECT_EQ(nodes_[0]->reader().dropped_rows() + nodes_[1]->reader().dropped_rows(), 0u);
}

TEST_F(SynchronousBatchesTest, JoinWithoutARemainderDropsLessThanABatch) {
  nodes_[0]->Feed(0, 5);
  nodes_[0]->server().EndEpoch("input", 0);
  nodes_[0]->tickets().OnGrant(
      {.queue = "input", .epoch = 0, .granted = 2, .final = true, .ending = true, .missing = {}});
  BatchOptions full = kTwoRows;
  full.drop_remainder = true;
  const auto next = [&] {
    return nodes_[0]->batches().Next(Remainder::kJoin, full, {.deadline = Deadline::After(kLong)});
  };
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(std::holds_alternative<Batch>(next().value()));
  EXPECT_TRUE(std::holds_alternative<EndOfEpoch>(next().value()));
  EXPECT_EQ(nodes_[0]->reader().dropped_rows(), 1u);
}

TEST_F(SynchronousBatchesTest, WithoutARemainderNodesAreLeftAlone) {
  nodes_[0]->Feed(0, 4);
  nodes_[0]->server().EndEpoch("input", 0);
  EXPECT_THAT(nodes_[0]->Epoch(Remainder::kNone), ElementsAre(2, 2));
  EXPECT_THAT(reports_, SizeIs(0));
}

TEST_F(SynchronousBatchesTest, AStepWaitsForItsTicket) {
  TestNode& node = *nodes_[0];
  node.Feed(0, 4);
  const auto now = [&] {
    return node.batches().Next(Remainder::kDrop, kTwoRows, {.deadline = Deadline::After(0s)});
  };
  EXPECT_EQ(now().status().kind(), ErrorKind::kRetryLater);
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].second.full_batches, 2u);
  EXPECT_FALSE(reports_[0].second.ended);
  node.tickets().OnGrant({.queue = "input", .epoch = 0, .granted = 1, .missing = {}});
  EXPECT_TRUE(now().ok());
  EXPECT_EQ(now().status().kind(), ErrorKind::kRetryLater) << "the second has no ticket yet";
  std::thread coordinator(
      [&] { node.tickets().OnGrant({.queue = "input", .epoch = 0, .granted = 2, .missing = {}}); });
  EXPECT_TRUE(
      node.batches().Next(Remainder::kDrop, kTwoRows, {.deadline = Deadline::After(kLong)}).ok());
  coordinator.join();
}

TEST_F(SynchronousBatchesTest, ACallThatWaitsDoesNotHoldUpAnotherOnesDeadlineAndCheck) {
  TestNode& node = *nodes_[0];
  std::promise<void> waits;
  std::atomic<bool> over = false;
  const auto check = [&, told = false]() mutable {
    if (!std::exchange(told, true)) waits.set_value();
    return Status::Ok();
  };
  std::thread first([&] {
    EXPECT_TRUE(
        node.batches()
            .Next(Remainder::kDrop, kTwoRows, {.deadline = Deadline::After(kLong), .check = check})
            .ok());
    over = true;
  });
  waits.get_future().wait();
  const auto next = [&](const Wait& wait) {
    return node.batches().Next(Remainder::kDrop, kTwoRows, wait).status().kind();
  };
  EXPECT_EQ(next({.deadline = Deadline::After(1ms)}), ErrorKind::kRetryLater);
  EXPECT_EQ(next({.check = [] { return Status(ErrorKind::kInterrupted, "stop"); }}),
            ErrorKind::kInterrupted);
  EXPECT_FALSE(over) << "the first one still waits for rows";
  node.server().EndFeed();
  first.join();
}

// A validation that reads the same queue without a remainder, say.
TEST_F(SynchronousBatchesTest, RowsOfAStepThatAnotherReaderTakesMeanwhileAreAMistakeWithAName) {
  TestNode& node = *nodes_[0];
  const Wait long_wait{.deadline = Deadline::After(kLong)};
  std::uint32_t epoch = 0;
  // Four rows are there when the step is asked for. Of those, `left` are left when it comes.
  const auto next = [&](Remainder remainder, std::uint64_t left) {
    node.Feed(epoch, 4);
    node.server().EndEpoch("input", epoch);
    const auto take_meanwhile = [&, taken = false]() mutable {
      if (std::exchange(taken, true)) return Status::Ok();
      BatchOptions options = kTwoRows;
      options.rows = 4 - left;
      EXPECT_TRUE(node.batches().Next(Remainder::kNone, options, long_wait).ok());
      node.tickets().OnGrant(
          {.queue = "input", .epoch = epoch, .granted = 2, .longest = 2, .missing = {}});
      return Status::Ok();
    };
    const Result<BatchResult> step = node.batches().Next(
        remainder, kTwoRows, {.deadline = long_wait.deadline, .check = take_meanwhile});
    if (left > 0) {
      EXPECT_TRUE(
          std::holds_alternative<EndOfEpoch>(node.reader().Next(kTwoRows, long_wait).value()));
    }
    ++epoch;
    return step.status();
  };
  for (const Remainder remainder : {Remainder::kDrop, Remainder::kPad, Remainder::kJoin}) {
    for (const std::uint64_t left : {0U, 1U}) {
      const Status step = next(remainder, left);
      EXPECT_EQ(step.kind(), ErrorKind::kBadInput);
      EXPECT_THAT(step.ToString(), HasSubstr("the rows of a step of 'input' were read here: read a "
                                             "queue with one remainder= only"));
    }
  }
}

TEST_F(SynchronousBatchesTest, TheEndOfTheFeedNeedsNoTickets) {
  TestNode& node = *nodes_[0];
  node.server().EndFeed();
  const auto next =
      node.batches().Next(Remainder::kPad, kTwoRows, {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(std::holds_alternative<EndOfFeed>(*next));
}

TEST_F(SynchronousBatchesTest, AReaderThatMayMakeFewerBatchesEndsWithTheBatchInHandWhenStopped) {
  for (const Remainder remainder : {Remainder::kNone, Remainder::kJoin}) {
    TestNode node(7);
    node.Feed(0, 6);
    node.tickets().OnGrant({.queue = "input", .epoch = 0, .granted = 3, .missing = {}});
    const auto next = [&] {
      return node.batches().Next(remainder, kTwoRows, {.deadline = Deadline::After(kLong)}).value();
    };
    EXPECT_TRUE(std::holds_alternative<Batch>(next()));
    node.server().StopReading();
    for (int again = 0; again < 2; ++again) {
      EXPECT_TRUE(std::holds_alternative<EndOfFeed>(next()));
    }
    EXPECT_EQ(node.reader().dropped_rows(), 0U) << "those that are left are unread";
  }
}

TEST_F(SynchronousBatchesTest, OneThatWaitsForRowsOrTicketsEndsWhenStopped) {
  struct Case {
    Remainder remainder;
    std::uint64_t rows;
  };
  for (const auto& [remainder, rows] :
       {Case{Remainder::kNone, 0}, Case{Remainder::kJoin, 0}, Case{Remainder::kJoin, 6}}) {
    TestNode node(7);
    if (rows > 0) node.Feed(0, rows);
    int asked = 0;
    const auto stop = [&] {
      if (++asked == 2) node.server().StopReading();
      return Status::Ok();
    };
    const auto next = node.batches().Next(remainder, kTwoRows,
                                          {.deadline = Deadline::After(kLong), .check = stop});
    ASSERT_TRUE(next.ok()) << next.status().DebugString();
    EXPECT_TRUE(std::holds_alternative<EndOfFeed>(*next));
    EXPECT_EQ(asked, 2);
  }
}

// Another thread may say so, or the feed may fail. The coordinator then leaves the node out.
TEST_F(SynchronousBatchesTest, OneThatWaitsForTicketsEndsWhenTheProgramWantsNoMoreRows) {
  for (const Remainder remainder : {Remainder::kJoin, Remainder::kDrop, Remainder::kPad}) {
    for (const bool epoch_ended : {false, true}) {
      TestNode node(7);
      node.Feed(0, 4);
      if (epoch_ended) node.server().EndEpoch("input", 0);
      const auto terminate = [&] {
        node.server().Terminate();
        return Status::Ok();
      };
      const auto next = node.batches().Next(
          remainder, kTwoRows, {.deadline = Deadline::After(kLong), .check = terminate});
      ASSERT_TRUE(next.ok()) << next.status().DebugString();
      EXPECT_TRUE(std::holds_alternative<EndOfFeed>(*next));
    }
  }
}

// Another node may have begun each of them.
TEST_F(SynchronousBatchesTest, OneThatIsStoppedMakesTheStepsThatWereGrantedAndNoOthers) {
  for (const Remainder remainder : {Remainder::kDrop, Remainder::kPad}) {
    TestNode node(7);
    node.Feed(0, 10);
    const auto grant = [&](bool final) {
      node.tickets().OnGrant({.queue = "input",
                              .epoch = 0,
                              .granted = 2,
                              .final = final,
                              .longest = final ? 2U : 5U,
                              .missing = {}});
    };
    const auto next = [&](Clock::Duration wait = kLong) {
      return node.batches().Next(remainder, kTwoRows, {.deadline = Deadline::After(wait)});
    };
    grant(false);
    EXPECT_TRUE(std::holds_alternative<Batch>(next().value()));
    node.server().StopReading();
    EXPECT_TRUE(std::holds_alternative<Batch>(next().value()));
    EXPECT_EQ(next(0s).status().kind(), ErrorKind::kRetryLater) << "more may have been granted";
    grant(true);
    for (int again = 0; again < 2; ++again) {
      EXPECT_TRUE(std::holds_alternative<EndOfFeed>(next().value()));
    }
    EXPECT_EQ(node.reader().dropped_rows(), 0U) << "those that are left are unread";
  }
}

// All nodes had ended before the coordinator heard of the stop.
TEST_F(SynchronousBatchesTest, OneThatIsStoppedMakesAllStepsOfAnEpochWhoseEndIsAgreedOn) {
  for (const auto& node : nodes_) node->server().StopReading();
  for (const Remainder remainder : {Remainder::kDrop, Remainder::kPad}) {
    EXPECT_THAT(RunEpoch(remainder, 6, 6), ElementsAre(ElementsAre(2, 2, 2), ElementsAre(2, 2, 2)));
  }
}

TEST_F(SynchronousBatchesTest, AnErrorOfTheCallerIsNoStop) {
  TestNode& node = *nodes_[0];
  const auto interrupt = [&] {
    node.server().StopReading();
    return Status(ErrorKind::kInterrupted, "a signal");
  };
  const auto next = node.batches().Next(Remainder::kNone, kTwoRows,
                                        {.deadline = Deadline::After(kLong), .check = interrupt});
  EXPECT_EQ(next.status().kind(), ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace tfos::feed
