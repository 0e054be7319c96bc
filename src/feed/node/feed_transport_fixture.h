#ifndef TFOS_FEED_NODE_FEED_TRANSPORT_FIXTURE_H_
#define TFOS_FEED_NODE_FEED_TRANSPORT_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/node/feed_server.h"
#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"

// One suite for all ways from a feeder to a node: shared memory, plain TCP, and TLS.

namespace tfos::feed {

// Far beyond what anything takes; only a hang reaches it.
inline constexpr auto kLong = std::chrono::seconds{60};
constexpr std::uint64_t kSmallRegion = 64 * 1024;

enum class Channel { kMemory, kTcp, kTls };

inline std::string NameOf(Channel channel) {
  if (channel == Channel::kMemory) return "Memory";
  return channel == Channel::kTcp ? "Tcp" : "Tls";
}

/// Both ends are on one host.
inline net::Encryption EncryptionOf(Channel channel) {
  return channel == Channel::kTls ? net::Encryption::kAlways : net::Encryption::kBetweenHosts;
}

inline std::string AsString(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The items of the chunks, whose neighbours are put together.
inline std::vector<ItemRange> RangesOf(const Counted& counted) {
  ItemRanges ranges;
  for (const AcceptedChunk& chunk : counted.chunks) ranges.Add(chunk.items);
  return ranges.ranges();
}

class FeedTransportTest : public ::testing::TestWithParam<Channel> {
 protected:
  /// Small enough that a test can fill it.
  static FeedServerOptions SmallMemory(std::uint64_t regions) {
    return {.memory_budget_bytes = regions * kSmallRegion, .region_bytes = kSmallRegion};
  }

  void StartServer(FeedServerOptions options = {}) {
    options.node_id = 3;
    options.key = key_;
    options.cluster_id = "c1";
    options.bind_address = "127.0.0.1";
    Result<std::unique_ptr<FeedServer>> server = FeedServer::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status().DebugString();
    server_ = std::move(*server);
  }

  Endpoint ServerEndpoint() const {
    Endpoint endpoint = server_->endpoint();
    endpoint.host = "127.0.0.1";
    if (GetParam() != Channel::kMemory) endpoint.unix_name.clear();
    return endpoint;
  }

  std::unique_ptr<FeedClient> Connect(FeedClientOptions options = {.progress_timeout = kLong}) {
    options.encryption = EncryptionOf(GetParam());
    Result<std::unique_ptr<FeedClient>> client =
        FeedClient::Connect(ServerEndpoint(), key_, std::move(options), Deadline::After(kLong));
    EXPECT_TRUE(client.ok()) << client.status().DebugString();
    return client.ok() ? std::move(*client) : nullptr;
  }

  std::unique_ptr<FeedClient> Open(Mode mode, std::uint32_t partition = 0,
                                   FeedClientOptions options = {.progress_timeout = kLong}) {
    std::unique_ptr<FeedClient> client = Connect(std::move(options));
    const Result<Opened> opened =
        client->Open({.mode = mode, .queue = "input", .key = {.partition = partition}});
    EXPECT_TRUE(opened.ok()) << opened.status().DebugString();
    return client;
  }

  static Status Put(FeedClient& client, std::string_view text, std::uint64_t items = 1,
                    std::uint64_t first = 0) {
    TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, client.Reserve(text.size()));
    if (client.stopped()) return {};
    std::memcpy(room.data(), text.data(), text.size());
    return client.Commit(text.size(), {first, first + items});
  }

  Result<Next> Take() { return server_->Next("input", {.deadline = Deadline::After(kLong)}); }

  /// What Take gives: the chunk's text, "end P", "broken P" or "over".
  std::string TakeText() {
    Result<Next> next = Take();
    if (!next.ok()) return next.status().ToString();
    if (const auto* end = std::get_if<PartitionEnd>(&*next)) {
      return fmt::format("{} {}", end->broken ? "broken" : "end", end->partition);
    }
    if (const auto* loan = std::get_if<ChunkLoan>(&*next)) return AsString(loan->bytes());
    return "over";
  }

  /// Polls what another thread is about to bring about.
  template <typename Condition>
  static bool Eventually(Condition condition) {
    const Deadline deadline = Deadline::After(kLong);
    while (!condition()) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return true;
  }

  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
  std::unique_ptr<FeedServer> server_;
};

INSTANTIATE_TEST_SUITE_P(Channels, FeedTransportTest,
                         ::testing::Values(Channel::kMemory, Channel::kTcp, Channel::kTls),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_FEED_TRANSPORT_FIXTURE_H_
