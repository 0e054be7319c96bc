// How a partition is spread over nodes, and what feeders and attempts that meet do.

#include "feed/feeder/partition_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
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

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// Shows a later minute each time.
class HurriedClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(1min * ++minutes_); }

 private:
  mutable std::atomic<int> minutes_ = 0;
};

// The node has memory for one feeder, and its program reads that one's rows for longer than the
// other one's timeout. It tells that with every chunk: the timeout, which must be real, is then
// far longer than the time between two words, however busy the machine is.
TEST_F(PartitionWriterTest, WhoWaitsForItsTurnOutwaitsABusyNode) {
  constexpr auto kTimeout = 5s;
  const HurriedClock clock;
  StartServers(1, 1, &clock);
  std::atomic<bool> busy = true;
  std::atomic<bool> open = false;
  std::jthread first([&] {
    Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(Options(0));
    ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
    open = true;
    while (busy) ASSERT_TRUE(Put(**writer, std::string(1000, 'b')).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  });
  while (!open) std::this_thread::yield();
  std::atomic<bool> over = false;
  std::jthread second([&] {
    PartitionWriterOptions options = Options(1);
    options.progress_timeout = kTimeout;
    Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(std::move(options));
    EXPECT_TRUE(writer.ok()) << writer.status().DebugString();
    if (writer.ok()) {
      EXPECT_TRUE(Put(**writer, "patient").ok());
      EXPECT_TRUE((*writer)->Finish().ok());
    }
    over = true;
  });
  const Deadline longer = Deadline::After(2 * kTimeout + 500ms);
  while (!longer.passed()) EXPECT_EQ(Take(*servers_[0]), std::string(1000, 'b'));
  busy = false;
  while (!over) Take(*servers_[0], 100ms);
  first.join();
  EXPECT_EQ(servers_[0]->counters().broken_sessions, 0u);
  servers_.clear();  // Before their clock.
}

// Each row needs nearly the whole memory of a node, while the other feeder has regions on both.
TEST_F(PartitionWriterTest, FeedersOfHugeRowsDoNotWaitForEachOther) {
  constexpr int kRounds = 4;
  StartServers(2, 4);
  const std::string huge(4 * kSmallRegion * 9 / 10, 'h');
  std::vector<std::jthread> consumers;
  std::vector<std::uint64_t> bytes(servers_.size());
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    consumers.emplace_back([&, i] {
      for (std::string text; !(text = Take(*servers_[i])).empty();) bytes[i] += text.size();
    });
  }
  {
    std::vector<std::jthread> feeders;
    for (std::uint32_t partition = 0; partition < 2; ++partition) {
      feeders.emplace_back([&, partition] {
        Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(Options(partition));
        ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
        std::uint64_t item = 0;
        for (int round = 0; round < kRounds; ++round) {
          for (const std::string& text : {std::string("small"), huge, huge}) {
            const Status put = Put(**writer, text, item++);
            ASSERT_TRUE(put.ok()) << put.DebugString();
          }
        }
        const Result<Ended> ended = (*writer)->Finish();
        ASSERT_TRUE(ended.ok()) << ended.status().DebugString();
        EXPECT_EQ(ended->accepted_items, item);
      });
    }
  }
  for (const std::unique_ptr<FeedServer>& server : servers_) server->EndFeed();
  consumers.clear();
  EXPECT_EQ(bytes[0] + bytes[1], 2 * kRounds * (5 + 2 * huge.size()));
  EXPECT_GE(std::min(bytes[0], bytes[1]), huge.size()) << "both nodes are fed";
  // Those below leave without an end, which the servers take for broken whenever they see it.
  EXPECT_EQ(servers_[0]->counters().broken_sessions + servers_[1]->counters().broken_sessions, 0u);
  for (std::uint32_t partition = 0; partition < 2; ++partition) {
    Result<std::unique_ptr<PartitionWriter>> again = PartitionWriter::Open(Options(partition));
    ASSERT_TRUE(again.ok());
    EXPECT_THAT((*again)->delivered().ranges(), ElementsAre(ItemRange{0, 3 * kRounds}));
    EXPECT_TRUE((*again)->stopped());
  }
}

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

// A connection that broke lost a chunk, and the next one had reached another node.
TEST_F(PartitionWriterTest, EveryAttemptLearnsExactlyWhatAllNodesHave) {
  StartServers(2, 4);
  const PartitionWriterOptions options = Options(3);
  const auto bring = [&](std::size_t node, std::vector<ItemRange> chunks) {
    Result<std::unique_ptr<FeedClient>> client =
        FeedClient::Connect(options.endpoints[node], key_, {}, Deadline::After(kLong));
    ASSERT_TRUE(client.ok() && (*client)->Open(options.session).ok());
    for (const ItemRange& items : chunks) {
      ASSERT_TRUE((*client)->Reserve(1).ok());
      ASSERT_TRUE((*client)->Commit(1, items).ok());
    }
    ASSERT_TRUE((*client)->Finish().ok());
  };
  bring(0, {{0, 5}, {12, 15}});
  bring(1, {{7, 8}, {8, 12}});
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  EXPECT_THAT((*writer)->delivered().ranges(), ElementsAre(ItemRange{0, 5}, ItemRange{7, 15}));
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(servers_[0]->counters().broken_sessions + servers_[1]->counters().broken_sessions, 0u);
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
  Result<std::unique_ptr<FeedClient>> other =
      FeedClient::Connect(Options(1).endpoints[1], key_, {}, Deadline::After(kLong));
  ASSERT_TRUE(other.ok() && (*other)->Open(Options(1).session).ok());
  PartitionWriterOptions options = Options(0);
  bool first_is_sent = false;
  options.check = [&] {  // Called while the writer waits.
    if (first_is_sent) other->reset();
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
  Result<std::unique_ptr<FeedClient>> slow =
      FeedClient::Connect(Options(1).endpoints[1], key_, {}, Deadline::After(kLong));
  ASSERT_TRUE(slow.ok() && (*slow)->Open(Options(1).session).ok());
  PartitionWriterOptions options = Options(0);
  options.patience_with_beginners = 300ms;
  const Deadline hang = Deadline::After(kLong / 2);
  options.check = [&] {
    return hang.passed() ? Status(ErrorKind::kInterrupted, "it hangs") : Status::Ok();
  };
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  for (const char* const chunk : {"one", "two", "three"}) {
    const Status put = Put(**writer, chunk);
    ASSERT_TRUE(put.ok()) << put.DebugString();
    EXPECT_EQ(Take(*servers_[0]), chunk);
  }
}

// Else two feeders could wait for ever, each for the memory that the other one holds.
TEST_F(PartitionWriterTest, ANodeThatHasRowsOfAnotherFeederIsNotWaitedFor) {
  StartServers(2, 1);
  Result<std::unique_ptr<FeedClient>> other =
      FeedClient::Connect(Options(1).endpoints[1], key_, {}, Deadline::After(kLong));
  ASSERT_TRUE(other.ok() && (*other)->Open(Options(1).session).ok());
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(Options(0));
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  ASSERT_TRUE(Put(**writer, "one", 0).ok());
  ASSERT_TRUE((*other)->Reserve(1).ok() && (*other)->Commit(1, {0, 1}).ok());
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

// Speculation: an attempt that was slow wakes up when another one has taken over.
TEST_F(PartitionWriterTest, AnOldAttemptDoesNotEndItsSuccessor) {
  StartServers(2, 8);
  PartitionWriterOptions options = Options(0);
  options.endpoints[1].unix_name.clear();
  Result<std::unique_ptr<PartitionWriter>> first = PartitionWriter::Open(options);
  ASSERT_TRUE(first.ok() && Put(**first, "a", 0).ok());
  options.session.attempt = 1;
  std::swap(options.endpoints[0], options.endpoints[1]);
  Result<std::unique_ptr<PartitionWriter>> second = PartitionWriter::Open(options);
  ASSERT_TRUE(second.ok() && Put(**second, "b", 1).ok());
  EXPECT_EQ(Put(**first, "c", 1).kind(), ErrorKind::kSuperseded);
  EXPECT_TRUE(Put(**second, "c", 2).ok());
  EXPECT_TRUE((*second)->Finish().ok());
}

// Else two attempts could each own a node, and bring it the same rows: a later one has come to one
// node first, and an earlier one to another.
TEST_F(PartitionWriterTest, TheLaterAttemptOwnsThePartitionWhereverItComesFirst) {
  StartServers(2, 8);
  PartitionWriterOptions earlier = Options(0);
  earlier.session.attempt = 7;
  PartitionWriterOptions later = Options(0);
  later.session.attempt = 8;
  const auto count = [&](std::size_t node, const PartitionWriterOptions& options) {
    Result<std::unique_ptr<FeedClient>> client =
        FeedClient::Connect(options.endpoints[node], key_, {}, Deadline::After(kLong));
    EXPECT_TRUE(client.ok());
    return (*client)->Count(options.session.key, options.session.attempt).status();
  };
  ASSERT_TRUE(count(0, earlier).ok());
  ASSERT_TRUE(count(1, later).ok());
  const Status overtaken = count(1, earlier);
  EXPECT_EQ(overtaken.kind(), ErrorKind::kSuperseded) << "it comes last, and is the earlier one";
  EXPECT_THAT(overtaken.ToString(), HasSubstr("task attempt 8 at the same partition took over"));
  EXPECT_EQ(PartitionWriter::Open(earlier).status().kind(), ErrorKind::kSuperseded);
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(later);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  EXPECT_TRUE(Put(**writer, "row").ok());
  EXPECT_TRUE((*writer)->Finish().ok());
}

// Between chunks that are larger than a region it has no session that could be ended.
TEST_F(PartitionWriterTest, AnOldAttemptWithoutASessionDoesNotComeBack) {
  StartServers(1, 8);
  const std::string large(2 * kSmallRegion, 'l');
  PartitionWriterOptions options = Options(0);
  Result<std::unique_ptr<PartitionWriter>> first = PartitionWriter::Open(options);
  ASSERT_TRUE(first.ok() && Put(**first, large, 0).ok());
  options.session.attempt = 1;
  Result<std::unique_ptr<PartitionWriter>> second = PartitionWriter::Open(options);
  ASSERT_TRUE(second.ok() && Put(**second, "b", 1).ok());
  EXPECT_EQ(Put(**first, large, 1).kind(), ErrorKind::kSuperseded);
  EXPECT_TRUE(Put(**second, "c", 2).ok());
  EXPECT_TRUE((*second)->Finish().ok());
  EXPECT_EQ(servers_[0]->counters().items, 3u);
}

}  // namespace
}  // namespace tfos::feed
