// How a partition is spread over nodes, and what feeders that wait for each other do.

#include "feed/partition_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
