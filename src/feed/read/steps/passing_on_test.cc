#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "feed/feeder/pass_rows.h"
#include "feed/read/steps/synchronous_batches_fixture.h"

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using namespace std::chrono_literals;

/// A node of three rows whose last two are to go to node 1.
class PassingOnTest : public SynchronousBatchesTest {
 protected:
  void SetUp() override {
    SynchronousBatchesTest::SetUp();
    nodes_[0]->Feed(0, 2);
    nodes_[0]->Feed(0, 1);
    nodes_[0]->server().EndEpoch("input", 0);
    Grant({{.from = 0, .rows = 2, .to = {.node_id = 1}}});
    nodes_[0]->tickets().SetPasser(
        [this](const StepGrant&, const RowPass& pass, const PassedPiece& piece) {
          EXPECT_EQ(pass.to.node_id, 1u);
          tried_.push_back(piece.number);
          const Status answer = answer_(tried_.size());
          if (answer.ok()) rows_passed_ += piece.rows.items();
          return answer;
        });
  }

  void Grant(std::vector<RowPass> passes) {
    nodes_[0]->tickets().OnGrant({.queue = "input",
                                  .epoch = 0,
                                  .final = true,
                                  .longest = 1,
                                  .ending = true,
                                  .passes = std::move(passes),
                                  .missing = {}});
  }

  Result<BatchResult> Next(Clock::Duration patience) {
    return nodes_[0]->batches().Next(Remainder::kJoin, kTwoRows,
                                     {.deadline = Deadline::After(patience)});
  }

  /// What comes of the nth try.
  std::function<Status(std::size_t n)> answer_ = [](std::size_t) { return Status::Ok(); };
  std::vector<std::uint64_t> tried_;
  std::uint64_t rows_passed_ = 0;
};

TEST_F(PassingOnTest, GoesOnAtTheNextCallWhereItStopped) {
  answer_ = [](std::size_t n) {
    return n == 2 ? Status(ErrorKind::kRetryLater, "it reads nothing") : Status::Ok();
  };
  EXPECT_EQ(Next(0s).status().kind(), ErrorKind::kRetryLater);
  EXPECT_EQ(rows_passed_, 1u);
  const Result<BatchResult> next = Next(kLong);
  ASSERT_TRUE(next.ok()) << next.status().DebugString();
  EXPECT_EQ(std::get<Batch>(*next).rows, 1u);
  EXPECT_EQ(rows_passed_, 2u);
  EXPECT_THAT(tried_, ElementsAre(1, 2, 2)) << "the same rows have the same number";
  EXPECT_EQ(nodes_[0]->batches().rows_passed_on(), 2u);
}

TEST_F(PassingOnTest, AFailureThatPassesIsNoneForAProgramThatWaits) {
  answer_ = [](std::size_t n) {
    return n == 1 ? Status(ErrorKind::kReconnect, "the connection broke") : Status::Ok();
  };
  EXPECT_EQ(std::get<Batch>(Next(kLong).value()).rows, 1u);
  EXPECT_EQ(rows_passed_, 2u);
}

// A host that can't be reached for a while, say: the other node waits for its rows.
TEST_F(PassingOnTest, ANodeThatCannotBeReachedGetsItsRowsOnceItCan) {
  answer_ = [](std::size_t n) {
    return n <= 5 ? Status(ErrorKind::kReconnect, "nobody listens there") : Status::Ok();
  };
  EXPECT_EQ(std::get<Batch>(Next(kLong).value()).rows, 1u);
  EXPECT_EQ(rows_passed_, 2u);
}

TEST_F(PassingOnTest, RowsForANodeThatIsGoneStay) {
  answer_ = [this](std::size_t n) {
    if (n == 5) Grant({});
    return Status(ErrorKind::kReconnect, "nobody listens there");
  };
  EXPECT_EQ(std::get<Batch>(Next(kLong).value()).rows, 2u);
  EXPECT_EQ(rows_passed_, 0u);
  EXPECT_THAT(tried_, SizeIs(5));
}

TEST_F(PassingOnTest, RowsThatAProgramWantsNoMoreStay) {
  nodes_[1]->server().Terminate();
  nodes_[0]->tickets().SetPasser(
      [this](const StepGrant& grant, const RowPass&, const PassedPiece& piece) {
        Status passed = PassRows(nodes_[1]->server().endpoint(), nodes_[1]->server().key(),
                                 grant.queue, grant.epoch, piece.chunk, piece.rows);
        // The coordinator hears of it.
        Grant({});
        return passed;
      });
  EXPECT_EQ(std::get<Batch>(Next(kLong).value()).rows, 2u);
  EXPECT_EQ(std::get<Batch>(Next(kLong).value()).rows, 1u);
  EXPECT_EQ(nodes_[0]->batches().rows_passed_on(), 0u);
}

TEST_F(PassingOnTest, TheEndOfTheFeedEndsTheTries) {
  answer_ = [this](std::size_t) {
    nodes_[0]->server().Terminate();
    return Status(ErrorKind::kReconnect, "nobody listens there");
  };
  EXPECT_TRUE(Next(kLong).ok());
  EXPECT_EQ(rows_passed_, 0u);
  EXPECT_THAT(tried_, SizeIs(1));
}

TEST_F(PassingOnTest, TheEndOfTheFeedEndsATry) {
  nodes_[0]->tickets().SetPasser(
      [this](const StepGrant&, const RowPass&, const PassedPiece& piece) {
        nodes_[0]->server().Terminate();
        return piece.check ? piece.check() : Status::Ok();
      });
  EXPECT_TRUE(Next(kLong).ok());
  EXPECT_EQ(nodes_[0]->batches().rows_passed_on(), 0u);
}

TEST_F(PassingOnTest, NobodyTriesLongerThanTheOtherNodeIsThere) {
  answer_ = [this](std::size_t) {
    Grant({});
    return Status(ErrorKind::kRetryLater, "it does not answer");
  };
  EXPECT_EQ(std::get<Batch>(Next(kLong).value()).rows, 2u);
  EXPECT_THAT(tried_, SizeIs(1));
}

TEST_F(PassingOnTest, TheCheckOfTheCallEndsATry) {
  nodes_[0]->tickets().SetPasser([](const StepGrant&, const RowPass&, const PassedPiece& piece) {
    return piece.check ? piece.check() : Status::Ok();
  });
  const Wait wait{.deadline = Deadline::After(kLong),
                  .check = [] { return Status(ErrorKind::kInterrupted, "stop"); }};
  EXPECT_EQ(nodes_[0]->batches().Next(Remainder::kJoin, kTwoRows, wait).status().kind(),
            ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace tfos::feed
