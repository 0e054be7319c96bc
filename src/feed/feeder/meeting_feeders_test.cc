// What feeders that meet at a node do, and attempts that meet at a partition.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "feed/feeder/partition_writer_fixture.h"

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

using MeetingFeedersTest = PartitionWriterTest;

/// Shows a later minute each time.
class HurriedClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(1min * ++minutes_); }
  std::chrono::minutes shown() const { return 1min * minutes_.load(); }

 private:
  mutable std::atomic<int> minutes_ = 0;
};

// The node has memory for one feeder, and its program reads that one's rows for longer than the
// other one's timeout. The node tells that with every chunk. A feeder that waits looks at its clock
// a few times for each word, and five times a second without one: the timeout is hundreds of looks
// away, however busy the machine is.
TEST_F(MeetingFeedersTest, WhoWaitsForItsTurnOutwaitsABusyNode) {
  constexpr auto kTimeout = 1000min;
  const HurriedClock clock;
  const HurriedClock clock_of_second;
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
    options.progress_clock = &clock_of_second;
    Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(std::move(options));
    EXPECT_TRUE(writer.ok()) << writer.status().DebugString();
    if (writer.ok()) {
      EXPECT_TRUE(Put(**writer, "patient").ok());
      EXPECT_TRUE((*writer)->Finish().ok());
    }
    over = true;
  });
  while (!over && clock_of_second.shown() < 2 * kTimeout) {
    EXPECT_EQ(Take(*servers_[0]), std::string(1000, 'b'));
  }
  EXPECT_FALSE(over);
  busy = false;
  while (!over) Take(*servers_[0], 100ms);
  first.join();
  EXPECT_EQ(servers_[0]->counters().broken_sessions, 0u);
  servers_.clear();  // Before their clock.
}

// Each row needs nearly the whole memory of a node, while the other feeder has regions on both.
TEST_F(MeetingFeedersTest, FeedersOfHugeRowsDoNotWaitForEachOther) {
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

// A connection that broke lost a chunk, and the next one had reached another node.
TEST_F(MeetingFeedersTest, EveryAttemptLearnsExactlyWhatAllNodesHave) {
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

// Speculation: an attempt that was slow wakes up when another one has taken over.
TEST_F(MeetingFeedersTest, AnOldAttemptDoesNotEndItsSuccessor) {
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
// Covers: speculative task / feeding
TEST_F(MeetingFeedersTest, TheLaterAttemptOwnsThePartitionWhereverItComesFirst) {
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
TEST_F(MeetingFeedersTest, AnOldAttemptWithoutASessionDoesNotComeBack) {
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
