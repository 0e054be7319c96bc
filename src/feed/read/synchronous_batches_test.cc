// Several nodes in one process, with the coordinator's decision made by hand.

#include "feed/read/synchronous_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "chunk/row_structure.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/read/test_chunks.h"

namespace tfos::feed {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using namespace std::chrono_literals;

constexpr auto kLong = 60s;
const BatchOptions kTwoRows = {
    .rows = 2,
    .drop_remainder = false,
    .columns = {
        {.name = "0", .encoding = columns::BatchEncoding::kDense, .dtype = chunk::DType::kInt64}}};

class TestNode {
 public:
  explicit TestNode(std::uint32_t id) {
    auto server =
        FeedServer::Start({.node_id = id, .key = key_, .cluster_id = "c1", .bind_address = ""});
    EXPECT_TRUE(server.ok()) << server.status().DebugString();
    server_ = std::move(*server);
    reader_ = std::make_unique<BatchReader>(*server_, "input", nullptr);
    batches_ = std::make_unique<SynchronousBatches>(*reader_, tickets_, "input");
  }

  /// Feeds a partition of this epoch with as many rows.
  void Feed(std::uint32_t epoch, std::uint64_t rows) {
    auto client = FeedClient::Connect(server_->endpoint(), key_, {.progress_timeout = kLong},
                                      Deadline::After(kLong));
    ASSERT_TRUE(client.ok()) << client.status().DebugString();
    const SessionOptions session = {.key = {.job = {1}, .epoch = epoch, .partition = 0}};
    ASSERT_TRUE((*client)->Open(session).ok());
    const std::vector<std::byte> chunk =
        MakeChunk({{.kind = chunk::RowNodeKind::kInt, .dtype = chunk::DType::kInt64}}, next_row_,
                  rows, chunk::RowNodeKind::kNone);
    next_row_ += rows;
    auto room = (*client)->Reserve(chunk.size());
    ASSERT_TRUE(room.ok());
    std::memcpy(room->data(), chunk.data(), chunk.size());
    ASSERT_TRUE((*client)->Commit(chunk.size(), {0, rows}).ok());
    ASSERT_TRUE((*client)->Finish().ok());
  }

  FeedServer& server() { return *server_; }
  BatchReader& reader() { return *reader_; }
  StepTickets& tickets() { return tickets_; }
  SynchronousBatches& batches() { return *batches_; }

  /// The real rows of every batch to the end of the epoch.
  std::vector<std::uint64_t> Epoch(Remainder remainder) {
    std::vector<std::uint64_t> rows;
    for (;;) {
      Result<BatchResult> next =
          batches_->Next(remainder, kTwoRows, {.deadline = Deadline::After(kLong)});
      EXPECT_TRUE(next.ok()) << next.status().DebugString();
      if (!next.ok() || !std::holds_alternative<Batch>(*next)) return rows;
      const Batch& batch = std::get<Batch>(*next);
      if (remainder != Remainder::kJoin) {
        EXPECT_EQ(batch.columns[0].data.bytes.size(), 2 * sizeof(std::int64_t));
      }
      rows.push_back(batch.rows);
    }
  }

 private:
  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
  std::unique_ptr<FeedServer> server_;
  std::unique_ptr<BatchReader> reader_;
  StepTickets tickets_;
  std::unique_ptr<SynchronousBatches> batches_;
  std::uint64_t next_row_ = 0;
};

class SynchronousBatchesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < 2; ++i) {
      nodes_.push_back(std::make_unique<TestNode>(static_cast<std::uint32_t>(i)));
      nodes_[i]->tickets().SetSender([this, i](const StepReport& report) {
        reports_.push_back({i, report});
        return Status::Ok();
      });
    }
  }

  /// What the nodes make of an epoch with these rows, when the coordinator grants as it does.
  std::vector<std::vector<std::uint64_t>> RunEpoch(Remainder remainder, std::uint64_t first_rows,
                                                   std::uint64_t second_rows) {
    if (first_rows > 0) nodes_[0]->Feed(epoch_, first_rows);
    if (second_rows > 0) nodes_[1]->Feed(epoch_, second_rows);
    for (const auto& node : nodes_) node->server().EndEpoch("input", epoch_);
    // Both have ended, so the decision is known before either asks.
    const std::uint64_t full = std::min(first_rows, second_rows) / 2;
    const std::uint64_t longest = (std::max(first_rows, second_rows) + 1) / 2;
    std::vector<std::vector<std::uint64_t>> made;
    for (const auto& node : nodes_) {
      node->tickets().OnGrant({.queue = "input",
                               .epoch = epoch_,
                               .granted = full,
                               .final = true,
                               .longest = longest,
                               .missing = {}});
      made.push_back(node->Epoch(remainder));
    }
    ++epoch_;
    return made;
  }

  std::vector<std::unique_ptr<TestNode>> nodes_;
  std::vector<std::pair<std::size_t, StepReport>> reports_;
  std::uint32_t epoch_ = 0;
};

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
      {.queue = "input", .epoch = 0, .granted = 2, .final = true, .missing = {}});
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

TEST_F(PassingOnTest, RowsForANodeThatIsGoneStay) {
  answer_ = [](std::size_t) { return Status(ErrorKind::kReconnect, "nobody listens there"); };
  EXPECT_EQ(std::get<Batch>(Next(kLong).value()).rows, 2u);
  EXPECT_EQ(rows_passed_, 0u);
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

TEST(PadBatchTest, FillsUpWithZerosAndEmptyValues) {
  const std::vector<std::int64_t> numbers = {7};
  const std::vector<std::int64_t> list = {1, 2, 3};
  const std::vector<std::int64_t> boundaries = {0, 3};
  Batch batch{.rows = 1, .columns = {}};
  batch.columns.push_back({.data = {.bytes = std::as_bytes(std::span(numbers))}, .boundaries = {}});
  batch.columns.push_back({.data = {.bytes = std::as_bytes(std::span(list))},
                           .boundaries = {.bytes = std::as_bytes(std::span(boundaries))}});
  batch.columns.push_back({.data = {}, .boundaries = {}, .strings = {"abc"}});
  batch.columns.push_back({.data = {}, .boundaries = {}, .strings = {"d", "e"}});
  batch.columns.push_back({.data = {},
                           .boundaries = {.bytes = std::as_bytes(std::span(boundaries))},
                           .strings = {"f", "g", "h"}});
  const auto padded = PadBatch(
      std::move(batch),
      {.rows = 3,
       .columns = {{.name = "x", .dtype = chunk::DType::kInt64},
                   {.name = "y",
                    .encoding = columns::BatchEncoding::kRagged,
                    .dtype = chunk::DType::kInt64},
                   {.name = "z", .encoding = columns::BatchEncoding::kStrings},
                   {.name = "pair", .encoding = columns::BatchEncoding::kStrings, .shape = {2}},
                   {.name = "list", .encoding = columns::BatchEncoding::kRaggedStrings}}});
  ASSERT_TRUE(padded.ok());
  EXPECT_EQ(padded->rows, 1u);
  const auto numbers_of = [](const columns::HeldBytes& held) {
    std::vector<std::int64_t> found(held.bytes.size() / 8);
    std::memcpy(found.data(), held.bytes.data(), held.bytes.size());
    return found;
  };
  EXPECT_THAT(numbers_of(padded->columns[0].data), ElementsAre(7, 0, 0));
  EXPECT_THAT(numbers_of(padded->columns[1].boundaries), ElementsAre(0, 3, 3, 3));
  EXPECT_THAT(numbers_of(padded->columns[1].data), ElementsAre(1, 2, 3));
  EXPECT_THAT(padded->columns[2].strings, ElementsAre("abc", "", ""));
  EXPECT_THAT(padded->columns[3].strings, ElementsAre("d", "e", "", "", "", ""));
  EXPECT_THAT(padded->columns[4].strings, ElementsAre("f", "g", "h"));
  EXPECT_THAT(numbers_of(padded->columns[4].boundaries), ElementsAre(0, 3, 3, 3));
}

}  // namespace
}  // namespace tfos::feed
