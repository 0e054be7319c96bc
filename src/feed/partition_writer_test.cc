// How a partition is spread over nodes, and what feeders that wait for each other do.

#include "feed/partition_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "feed/feed_server.h"

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using namespace std::chrono_literals;

// Far beyond what anything takes; only a hang reaches it.
constexpr auto kLong = 60s;
constexpr std::uint64_t kSmallRegion = 64 * 1024;

class PartitionWriterTest : public ::testing::Test {
 protected:
  void StartServers(std::uint32_t count, std::uint64_t regions) {
    for (std::uint32_t i = 0; i < count; ++i) {
      Result<std::unique_ptr<FeedServer>> server =
          FeedServer::Start({.node_id = i,
                             .token = token_,
                             .cluster_id = "c1",
                             .bind_address = "127.0.0.1",
                             .memory_budget_bytes = regions * kSmallRegion,
                             .region_bytes = kSmallRegion});
      ASSERT_TRUE(server.ok()) << server.status().DebugString();
      servers_.push_back(std::move(*server));
    }
  }

  PartitionWriterOptions Options(std::uint32_t partition) const {
    PartitionWriterOptions options;
    options.token = token_;
    options.session.key.partition = partition;
    options.progress_timeout = kLong;
    for (const std::unique_ptr<FeedServer>& server : servers_) {
      options.endpoints.push_back(server->endpoint());
      options.endpoints.back().host = "127.0.0.1";
    }
    return options;
  }

  static Status Put(PartitionWriter& writer, std::string_view text, std::uint64_t first = 0,
                    std::uint64_t items = 1) {
    TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, writer.Reserve(text.size()));
    if (room.empty()) return {};
    std::memcpy(room.data(), text.data(), text.size());
    return writer.Commit(text.size(), {first, first + items});
  }

  /// The next chunk's text; empty at the end of the feed, or when none came within `patience`.
  static std::string Take(FeedServer& server, std::chrono::milliseconds patience = kLong) {
    const Result<Next> next = server.Next("input", {.deadline = Deadline::After(patience)});
    if (!next.ok() || !std::holds_alternative<ChunkLoan>(*next)) return "";
    const std::span<const std::byte> bytes = std::get<ChunkLoan>(*next).bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  const Secret token_ = *Secret::FromHex(std::string(64, 'a'));
  std::vector<std::unique_ptr<FeedServer>> servers_;
};

// The node has memory for one feeder, and its program reads that one's rows for longer than the
// other one's timeout.
TEST_F(PartitionWriterTest, WhoWaitsForItsTurnOutwaitsABusyNode) {
  constexpr auto kTimeout = 2s;
  StartServers(1, 1);
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
  for (std::uint32_t partition = 0; partition < 2; ++partition) {
    Result<std::unique_ptr<PartitionWriter>> again = PartitionWriter::Open(Options(partition));
    ASSERT_TRUE(again.ok());
    EXPECT_THAT((*again)->delivered().ranges(), ElementsAre(ItemRange{0, 3 * kRounds}));
    EXPECT_TRUE((*again)->stopped());
  }
  EXPECT_EQ(servers_[0]->counters().broken_sessions + servers_[1]->counters().broken_sessions, 0u);
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
        FeedClient::Connect(options.endpoints[node], token_, {}, Deadline::After(kLong));
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

TEST_F(PartitionWriterTest, ANodeThatIsGoneIsNotAsked) {
  StartServers(2, 4);
  const PartitionWriterOptions options = Options(3);
  servers_[0].reset();
  Result<std::unique_ptr<PartitionWriter>> writer = PartitionWriter::Open(options);
  ASSERT_TRUE(writer.ok()) << writer.status().DebugString();
  ASSERT_TRUE(Put(**writer, "for the other").ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Take(*servers_[1]), "for the other");
}

}  // namespace
}  // namespace tfos::feed
