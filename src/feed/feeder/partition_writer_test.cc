// How a partition is spread over nodes.

#include "feed/feeder/partition_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "feed/feeder/partition_writer_fixture.h"

namespace tfos::feed {
namespace {

using namespace std::chrono_literals;

TEST_F(PartitionWriterTest, AHugeRowGoesToANodeThatStillWantsRows) {
  StartServers(2, 4);
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(Options(0));
  ASSERT_TRUE(writer.ok());
  servers_[0]->Terminate();
  const std::string huge(2 * kSmallRegion, 'h');
  ASSERT_TRUE(Put(**writer, huge, 0).ok());
  ASSERT_TRUE(Put(**writer, "small", 1).ok());
  EXPECT_TRUE(Take(*servers_[1]) == huge);
  EXPECT_EQ(Take(*servers_[1]), "small");
  ASSERT_TRUE(Put(**writer, huge, 2).ok());
  EXPECT_TRUE(Take(*servers_[1]) == huge);
  EXPECT_EQ(servers_[1]->counters().region_bytes_in_use, 0u) << "whenever the next row comes";
  servers_[1]->Terminate();
  ASSERT_TRUE(Put(**writer, huge, 3).ok());
  EXPECT_TRUE((*writer)->stopped());
  EXPECT_TRUE((*writer)->Finish().ok());
  EXPECT_FALSE((*writer)->Reserve(1).ok()) << "after the end";
}

// It may have none to give until the other one has rows, too: they train in step.
TEST_F(PartitionWriterTest, AHugeRowGoesToANodeThatHasMemoryForIt) {
  StartServers(2, 4);
  Result<std::unique_ptr<PartitionWriter>> first = PartitionWriter::Open(Options(0));
  Result<std::unique_ptr<PartitionWriter>> second = PartitionWriter::Open(Options(2));
  ASSERT_TRUE(first.ok() && second.ok());
  // Both know of nodes that have got nothing, and begin with the same one.
  ASSERT_TRUE(Put(**first, std::string(2 * kSmallRegion, 'f')).ok());
  const Result<Next> held = servers_[0]->Next("input", {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(held.ok()) << held.status().DebugString();
  const std::string huge(3 * kSmallRegion, 's');
  ASSERT_TRUE(Put(**second, huge).ok());
  EXPECT_TRUE(Take(*servers_[1]) == huge);
  EXPECT_TRUE((*first)->Finish().ok());
  EXPECT_TRUE((*second)->Finish().ok());
  EXPECT_EQ(servers_[0]->counters().broken_sessions, 0u) << "it has left, and did not die";
}

// A session gets what another one has left, which may be more than it asked for.
TEST_F(PartitionWriterTest, ARowThatFitsTheMemoryBeforeButNotThatOfNowIsSent) {
  StartServers(1, 16);
  const std::string large(kSmallRegion * 7 / 4, 'l');
  Result<std::unique_ptr<PartitionWriter>> before = PartitionWriter::Open(Options(0));
  ASSERT_TRUE(before.ok() && Put(**before, large).ok());
  EXPECT_TRUE(Take(*servers_[0]) == large);
  ASSERT_TRUE((*before)->Finish().ok());

  Result<std::unique_ptr<PartitionWriter>> small = PartitionWriter::Open(Options(1));
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(Options(2));
  ASSERT_TRUE(small.ok() && writer.ok());
  ASSERT_TRUE(Put(**writer, large, 0).ok());
  EXPECT_TRUE(Take(*servers_[0]) == large);
  EXPECT_EQ(servers_[0]->counters().open_sessions, 2u) << "it did not need a session of its own";
  const std::string huge(kSmallRegion * 3, 'h');
  ASSERT_TRUE(Put(**writer, huge, 1).ok());
  EXPECT_TRUE(Take(*servers_[0]) == huge);
  ASSERT_TRUE((*small)->Finish().ok());  // Its memory is the writer's next.
  const Status put = Put(**writer, large, 2);
  ASSERT_TRUE(put.ok()) << put.DebugString();
  EXPECT_TRUE(Take(*servers_[0]) == large);
  ASSERT_TRUE((*writer)->Finish().ok());
}

class HugeRowTest : public PartitionWriterTest {
 protected:
  /// The memory of all nodes is with rows that their programs hold.
  void FillAll() {
    for (const auto& server : servers_) {
      ASSERT_TRUE(Put(*other_, std::string(2 * kSmallRegion, 'o'), held_.size()).ok());
      held_.push_back(server->Next("input", {.deadline = Deadline::After(kLong)}));
      ASSERT_TRUE(held_.back().ok()) << held_.back().status().DebugString();
    }
  }

  void SetUp() override {
    StartServers(2, 4);
    other_ = PartitionWriter::Open(Options(0)).value();
    writer_ = PartitionWriter::Open(Options(1)).value();
    FillAll();
  }

  std::unique_ptr<PartitionWriter> other_;
  std::unique_ptr<PartitionWriter> writer_;
  std::vector<Result<Next>> held_;
  const std::string huge_ = std::string(3 * kSmallRegion, 'h');
};

TEST_F(HugeRowTest, ItsFeederHearsThatNobodyWantsItAnyMore) {
  std::thread feeder([&] { EXPECT_TRUE(Put(*writer_, huge_).ok()); });
  for (const auto& server : servers_) server->Terminate();
  feeder.join();
  EXPECT_TRUE(writer_->stopped());
}

TEST_F(HugeRowTest, ItGoesToAnotherNodeWhenOneIsLostMeanwhile) {
  std::thread feeder([&] { EXPECT_TRUE(Put(*writer_, huge_).ok()); });
  End(1);
  held_.clear();
  feeder.join();
  EXPECT_TRUE(Take(*servers_[0]) == huge_);
}

TEST_F(PartitionWriterTest, ANodeOfAnotherHostThatLagsBehindIsFed) {
  StartServers(2, 8);
  PartitionWriterOptions options = Options(0);
  options.endpoints[1].unix_name.clear();
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  // Until it has answered, and then for a while.
  const Deadline long_after = Deadline::After(kLong);
  std::uint64_t items = 0;
  while (servers_[1]->counters().items < 50 && !long_after.passed()) {
    ASSERT_TRUE(Put(**writer, std::string(1000, 'r'), items++).ok());
    (void)Take(*servers_[0], 0ms);
    (void)Take(*servers_[1], 0ms);
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_GE(servers_[1]->counters().items, 50u);
  EXPECT_EQ(servers_[0]->counters().items + servers_[1]->counters().items, items);
}

TEST_F(PartitionWriterTest, ANodeOfAnotherHostThatHasEnoughIsNotFed) {
  StartServers(2, 8);
  PartitionWriterOptions options = Options(0);
  options.endpoints[1].unix_name.clear();
  {
    PartitionWriterOptions before = Options(1);
    before.endpoints = {options.endpoints[1]};
    Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(before);
    ASSERT_TRUE(writer.ok() && Put(**writer, std::string(40'000, 'b')).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(Put(**writer, std::string(1000, 'r'), i).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(servers_[0]->counters().items, 20u);
}

// Else nodes that train in step could wait for ever: one has no rows, and the other one takes no
// more before the first has some.
TEST_F(PartitionWriterTest, WhenTheNodesHereAreFullRowsGoToAnotherHost) {
  StartServers(2, 1);
  PartitionWriterOptions options = Options(0);
  options.endpoints[1].unix_name.clear();
  {
    // It lags behind nobody.
    PartitionWriterOptions before = Options(1);
    before.endpoints = {options.endpoints[1]};
    Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(before);
    for (std::uint64_t i = 0; i < 100; ++i) {
      ASSERT_TRUE(Put(**writer, std::string(1000, 'b'), i).ok());
      EXPECT_EQ(Take(*servers_[1]), std::string(1000, 'b'));
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (std::uint64_t i = 0; i < 90; ++i) {
    ASSERT_TRUE(Put(**writer, std::string(1000, 'r'), i).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_GT(servers_[0]->counters().items, 50u);
  EXPECT_GT(servers_[1]->counters().items, 100u);
}

// Its program waits for the one of the other host, which waits for rows. Only this feeder is left.
TEST_F(PartitionWriterTest, AFeederThatBeginsWhenTheNodesHereAreFullGoesToAnotherHost) {
  StartServers(2, 1);
  PartitionWriterOptions options = Options(1);
  options.endpoints.resize(1);
  Result<std::unique_ptr<PartitionWriter>> first = PartitionWriter::Open(std::move(options));
  ASSERT_TRUE(first.ok()) << first.status().DebugString();
  ASSERT_TRUE(Put(**first, std::string(kSmallRegion, 'x')).ok());
  ASSERT_TRUE((*first)->Finish().ok());

  options = Options(2);
  options.endpoints[1].unix_name.clear();
  Result<std::unique_ptr<PartitionWriter>> second = PartitionWriter::Open(std::move(options));
  ASSERT_TRUE(second.ok()) << second.status().DebugString();
  const Status put = Put(**second, "abroad");
  ASSERT_TRUE(put.ok()) << put.DebugString();
  EXPECT_EQ(Take(*servers_[1]), "abroad");
  ASSERT_TRUE((*second)->Finish().ok());
}

TEST_F(PartitionWriterTest, OnePartitionFeedsAllHosts) {
  StartServers(5, 8);
  PartitionWriterOptions options = Options(0);
  for (std::size_t i = 1; i < options.endpoints.size(); ++i) options.endpoints[i].unix_name.clear();
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  const Deadline long_after = Deadline::After(kLong);
  const auto fewest = [&] {
    std::uint64_t items = std::numeric_limits<std::uint64_t>::max();
    for (const auto& server : servers_) items = std::min(items, server->counters().items);
    return items;
  };
  for (std::uint64_t i = 0; fewest() < 20 && !long_after.passed(); ++i) {
    ASSERT_TRUE(Put(**writer, std::string(1000, 'r'), i).ok());
    for (const auto& server : servers_) (void)Take(*server, 0ms);
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_GE(fewest(), 20u);
}

// As many chunks as nodes, so that each gets one or goes without.
// What a node that is lost at an epoch's end leaves is then its share, and not all of the epoch.
TEST_F(PartitionWriterTest, AnEpochIsDealtEvenlyWhateverCameBefore) {
  StartServers(2, 8);
  PartitionWriterOptions options = Options(0);
  {
    PartitionWriterOptions before = options;
    before.endpoints.pop_back();
    Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(before);
    ASSERT_TRUE(writer.ok() && Put(**writer, std::string(40'000, 'b')).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
    EXPECT_EQ(Take(*servers_[0]).size(), 40'000u);
  }
  const std::uint64_t items_before = servers_[0]->counters().items;
  ++options.session.key.epoch;
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (std::uint64_t item = 0; item < 10; ++item) {
    ASSERT_TRUE(Put(**writer, std::string(1000, 'r'), item).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  // The first one goes to the node that has never had any.
  EXPECT_EQ(servers_[0]->counters().items - items_before, 5u);
  EXPECT_EQ(servers_[1]->counters().items, 5u);
}

TEST_F(PartitionWriterTest, NoNodeGetsASecondChunkBeforeAllHaveOne) {
  for (const bool any_here : {true, false}) {
    servers_.clear();
    StartServers(6, 8);
    PartitionWriterOptions options = Options(0);
    for (std::size_t i = any_here ? 1 : 0; i < options.endpoints.size(); ++i) {
      options.endpoints[i].unix_name.clear();
    }
    Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
    ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
    for (std::uint64_t i = 0; i < servers_.size(); ++i) {
      ASSERT_TRUE(Put(**writer, std::string(1000, 'r'), i).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
    for (const auto& server : servers_) EXPECT_EQ(server->counters().items, 1u) << any_here;
  }
}

// The node is so late here as its memory is with another feeder, which has brought nothing yet.
TEST_F(PartitionWriterTest, ANodeThatAnswersLateIsWaitedForWhileItHasNoRow) {
  StartServers(2, 1);
  std::unique_ptr<FeedClient> other = HolderAt(1);
  ASSERT_NE(other, nullptr);
  PartitionWriterOptions options = Options(0);
  bool first_is_sent = false;
  options.check = [&] {  // Called while the writer waits.
    if (first_is_sent) other.reset();
    return Status::Ok();
  };
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  ASSERT_TRUE(Put(**writer, "one", 0).ok());
  first_is_sent = true;
  ASSERT_TRUE(Put(**writer, "two", 1).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Take(*servers_[0]), "one");
  EXPECT_EQ(Take(*servers_[1]), "two");
}

// A feeder whose own source is slow holds the memory of a node that has no row yet.
TEST_F(PartitionWriterTest, ANodeThatDoesNotBeginIsNotWaitedForWithoutEnd) {
  StartServers(2, 1);
  const std::unique_ptr<FeedClient> slow = HolderAt(1);
  ASSERT_NE(slow, nullptr);
  ExpectAllAtTheFirst(Options(0));
}

// Else two feeders could wait for ever, each for the memory that the other one holds.
TEST_F(PartitionWriterTest, ANodeThatHasRowsOfAnotherFeederIsNotWaitedFor) {
  StartServers(2, 1);
  const std::unique_ptr<FeedClient> other = HolderAt(1);
  ASSERT_NE(other, nullptr);
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(Options(0));
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  ASSERT_TRUE(Put(**writer, "one", 0).ok());
  ASSERT_TRUE(other->Reserve(1).ok() && other->Commit(1, {0, 1}).ok());
  ASSERT_TRUE(Put(**writer, "two", 1).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(servers_[0]->counters().items, 2u);
}

TEST_F(PartitionWriterTest, ANodeWithoutARowIsToldWhatRowsHold) {
  StartServers(3, 8);
  PartitionWriterOptions options = Options(0);
  options.endpoints[2].unix_name.clear();
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  ASSERT_TRUE(Put(**writer, "the only one", 0).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Take(*servers_[0]), "the only one");
  for (const std::size_t node : {1, 2}) {
    const FeedCounters counters = servers_[node]->counters();
    EXPECT_EQ(counters.items + counters.bytes + counters.rows_read_elsewhere, 0u);
    Result<Next> next = servers_[node]->Next("input", {.deadline = Deadline::After(kLong)});
    ASSERT_TRUE(next.ok() && std::holds_alternative<ChunkLoan>(*next));
    const auto& loan = std::get<ChunkLoan>(*next);
    EXPECT_TRUE(loan.is_sample());
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(loan.bytes().data()), loan.bytes().size()),
              "the only one");
  }
  // It still counts as one without rows.
  writer = PartitionWriter::Open(Options(1));
  ASSERT_TRUE(writer.ok() && Put(**writer, "another", 0).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Take(*servers_[1]), "another");
}

// Its memory is with a feeder that keeps it.
TEST_F(PartitionWriterTest, ANodeThatGetsRowsMeanwhileIsSentNoSample) {
  StartServers(2, 1);
  const std::unique_ptr<FeedClient> other = HolderAt(1);
  ASSERT_NE(other, nullptr);
  PartitionWriterOptions options = Options(0);
  bool finishes = false;
  bool has_brought = false;
  const Deadline hang = Deadline::After(kLong / 2);
  options.check = [&]() -> Status {  // Called while the writer waits.
    if (finishes && !std::exchange(has_brought, true)) {
      TFOS_RETURN_IF_ERROR(other->Reserve(1).status());
      TFOS_RETURN_IF_ERROR(other->Commit(1, {0, 1}));
    }
    return Interrupted(hang);
  };
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  ASSERT_TRUE(Put(**writer, "one").ok());
  finishes = true;
  const Status finished = (*writer)->Finish().status();
  EXPECT_TRUE(finished.ok()) << finished.DebugString();
  EXPECT_EQ(servers_[1]->counters().chunks, 1u);
}

TEST_F(PartitionWriterTest, APartitionEndsAlsoWithoutASample) {
  StartServers(2, 1);
  const std::unique_ptr<FeedClient> other = HolderAt(1);
  ASSERT_NE(other, nullptr);
  PartitionWriterOptions options = Options(0);
  options.progress_timeout = 2s;
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  ASSERT_TRUE(Put(**writer, "one").ok());
  const Status finished = (*writer)->Finish().status();
  EXPECT_TRUE(finished.ok()) << finished.DebugString();
  EXPECT_EQ(servers_[1]->counters().chunks, 0u);
}

TEST_F(PartitionWriterTest, WhenSomeHaveStoppedTheRestIsForTheOthers) {
  StartServers(4, 8);
  PartitionWriterOptions options = Options(0);
  for (std::size_t i = 1; i < options.endpoints.size(); ++i) options.endpoints[i].unix_name.clear();
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (std::size_t i = 0; i < 3; ++i) servers_[i]->Terminate();
  // Some rows are on their way before the feeder reads that a node has stopped. After that each one
  // goes to the last node; shared among four, no twenty in a row would.
  const auto items = [this] { return servers_[3]->counters().items; };
  std::uint64_t put = 0;
  bool all_to_the_last = false;
  for (int round = 0; round < 50 && !all_to_the_last; ++round) {
    const std::uint64_t before = items();
    for (int row = 0; row < 20; ++row) ASSERT_TRUE(Put(**writer, "r", put++).ok());
    const Deadline deadline = Deadline::After(std::chrono::seconds(1));
    while (items() < before + 20 && !deadline.passed()) std::this_thread::yield();
    all_to_the_last = items() >= before + 20;
  }
  EXPECT_TRUE(all_to_the_last);
  EXPECT_FALSE((*writer)->stopped());
  ASSERT_TRUE((*writer)->Finish().ok());
}

}  // namespace
}  // namespace tfos::feed
