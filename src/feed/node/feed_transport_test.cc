// One suite for all ways from a feeder to a node: shared memory, plain TCP, and TLS.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/node/feed_server.h"

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// Far beyond what anything takes; only a hang reaches it.
constexpr auto kLong = 60s;
constexpr std::uint64_t kSmallRegion = 64 * 1024;

enum class Channel { kMemory, kTcp, kTls };

std::string NameOf(Channel channel) {
  if (channel == Channel::kMemory) return "Memory";
  return channel == Channel::kTcp ? "Tcp" : "Tls";
}

/// Both ends are on one host.
net::Encryption EncryptionOf(Channel channel) {
  return channel == Channel::kTls ? net::Encryption::kAlways : net::Encryption::kBetweenHosts;
}

std::string AsString(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

AlignedBuffer Copied(std::string_view text) {
  AlignedBuffer copy(text.size());
  std::memcpy(copy.bytes().data(), text.data(), text.size());
  return copy;
}

/// The items of the chunks, whose neighbours are put together.
std::vector<ItemRange> RangesOf(const Counted& counted) {
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
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
  std::unique_ptr<FeedServer> server_;
};

INSTANTIATE_TEST_SUITE_P(Channels, FeedTransportTest,
                         ::testing::Values(Channel::kMemory, Channel::kTcp, Channel::kTls),
                         [](const auto& tested) { return NameOf(tested.param); });

TEST_P(FeedTransportTest, ChunksArriveAsTheyWereSent) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  EXPECT_EQ(client->shares_memory(), GetParam() == Channel::kMemory);
  EXPECT_EQ(client->channel() == net::Channel::kTls, GetParam() == Channel::kTls);
  ASSERT_TRUE(Put(*client, "first", 2).ok());
  ASSERT_TRUE(Put(*client, "second", 3).ok());
  const Result<Ended> ended = client->Finish();
  ASSERT_TRUE(ended.ok()) << ended.status().DebugString();
  EXPECT_EQ(ended->accepted_items, 5u);
  EXPECT_FALSE(ended->stopped);

  Result<Next> next = Take();
  ASSERT_TRUE(next.ok());
  auto& loan = std::get<ChunkLoan>(*next);
  EXPECT_EQ(AsString(loan.bytes()), "first");
  EXPECT_EQ(loan.items(), 2u);
  EXPECT_EQ(loan.mode(), Mode::kTrain);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(loan.bytes().data()) % 64, 0u);
  EXPECT_EQ(TakeText(), "second");
  server_->EndFeed();
  EXPECT_EQ(TakeText(), "over");
}

TEST_P(FeedTransportTest, AnEmptyPartitionEnds) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  const Result<Ended> ended = client->Finish();
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->accepted_items, 0u);
}

TEST_P(FeedTransportTest, FarMoreThanTheRegionPassesThroughIt) {
  StartServer(SmallMemory(1));
  constexpr int kChunks = 300;
  std::thread feeder([&] {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
    for (int i = 0; i < kChunks; ++i) {
      const std::size_t size = 1 + static_cast<std::size_t>(i) * 7919 % 40'000;
      ASSERT_TRUE(Put(*client, std::string(size, static_cast<char>('a' + i % 26))).ok());
    }
    ASSERT_TRUE(client->Finish().ok());
  });
  for (int i = 0; i < kChunks; ++i) {
    const std::size_t size = 1 + static_cast<std::size_t>(i) * 7919 % 40'000;
    ASSERT_EQ(TakeText(), std::string(size, static_cast<char>('a' + i % 26))) << i;
  }
  feeder.join();
  EXPECT_EQ(server_->counters().chunks, static_cast<std::uint64_t>(kChunks));
}

TEST_P(FeedTransportTest, AChunkLargerThanTheBudgetPasses) {
  StartServer(SmallMemory(2));
  const std::string large(5 << 20, 'x');
  std::thread feeder([&] {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
    for (const std::string& text : {std::string("small"), large, large, std::string("end")}) {
      ASSERT_TRUE(Put(*client, text).ok());
    }
    ASSERT_TRUE(client->Finish().ok());
  });
  EXPECT_EQ(TakeText(), "small");
  EXPECT_TRUE(TakeText() == large);
  EXPECT_TRUE(TakeText() == large);
  EXPECT_EQ(TakeText(), "end");
  feeder.join();
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
}

TEST_P(FeedTransportTest, TheBudgetHoldsHoweverManyFeed) {
  StartServer(SmallMemory(2));
  constexpr std::uint32_t kFeeders = 6;
  constexpr int kChunks = 40;
  std::vector<std::thread> feeders;
  for (std::uint32_t partition = 0; partition < kFeeders; ++partition) {
    feeders.emplace_back([this, partition] {
      std::unique_ptr<FeedClient> client = Open(Mode::kTrain, partition);
      for (int i = 0; i < kChunks; ++i) {
        ASSERT_TRUE(Put(*client, std::string(9'000, static_cast<char>('a' + partition))).ok());
      }
      ASSERT_TRUE(client->Finish().ok());
    });
  }
  std::vector<int> seen(kFeeders);
  for (std::uint32_t i = 0; i < kFeeders * kChunks; ++i) {
    EXPECT_LE(server_->counters().region_bytes_in_use, 2 * kSmallRegion);
    const std::string text = TakeText();
    ASSERT_EQ(text.size(), 9'000u);
    ++seen[static_cast<std::size_t>(text[0] - 'a')];
  }
  for (std::thread& feeder : feeders) feeder.join();
  EXPECT_THAT(seen, ::testing::Each(kChunks));
  EXPECT_EQ(server_->counters().open_sessions, 0u);
}

TEST_P(FeedTransportTest, SmallPartitionsThatNobodyReadsDoNotFillTheBudget) {
  StartServer(SmallMemory(4));
  for (std::uint32_t partition = 0; partition < 40; ++partition) {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain, partition);
    ASSERT_TRUE(Put(*client, fmt::format("row of {}", partition)).ok());
    ASSERT_TRUE(client->Finish().ok());
  }
  EXPECT_EQ(server_->counters().region_bytes_in_use, 40 * 4096u);
  for (int partition = 0; partition < 40; ++partition) {
    EXPECT_EQ(TakeText(), fmt::format("row of {}", partition));
  }
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
}

TEST_P(FeedTransportTest, CreditShrinksAndComesBack) {
  StartServer(SmallMemory(1));
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  EXPECT_EQ(*client->FreeBytes(), kSmallRegion);
  ASSERT_TRUE(Put(*client, std::string(kSmallRegion / 4, 'x')).ok());
  EXPECT_EQ(*client->FreeBytes(), kSmallRegion / 4 * 3);
  TakeText();
  EXPECT_TRUE(Eventually([&] { return *client->FreeBytes() == kSmallRegion; }));
}

TEST_P(FeedTransportTest, LoansMayBeReturnedInAnyOrder) {
  StartServer(SmallMemory(1));
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  const std::string half(kSmallRegion / 2, 'x');
  ASSERT_TRUE(Put(*client, half).ok());
  ASSERT_TRUE(Put(*client, half).ok());
  Result<Next> first = Take();
  Result<Next> second = Take();
  ASSERT_TRUE(first.ok() && second.ok());
  std::get<ChunkLoan>(*second).Release();
  EXPECT_EQ(*client->FreeBytes(), 0u) << "the older chunk is still lent";
  std::get<ChunkLoan>(*first).Release();
  EXPECT_TRUE(Eventually([&] { return *client->FreeBytes() == kSmallRegion; }));
}

TEST_P(FeedTransportTest, ALoanOutlivesFeederAndServer) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  ASSERT_TRUE(Put(*client, "still here").ok());
  Result<Next> next = Take();
  ASSERT_TRUE(next.ok());
  client.reset();
  server_.reset();
  EXPECT_EQ(AsString(std::get<ChunkLoan>(*next).bytes()), "still here");
}

TEST_P(FeedTransportTest, WhatABrokenTrainingFeederBroughtIsStillConsumed) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  ASSERT_TRUE(Put(*client, "one").ok());
  ASSERT_TRUE(Put(*client, "two").ok());
  EXPECT_TRUE(Eventually([&] { return server_->counters().chunks == 2; }));
  client.reset();
  EXPECT_TRUE(Eventually([&] { return server_->counters().open_sessions == 0; }));
  EXPECT_EQ(server_->counters().broken_sessions, 1u);
  EXPECT_EQ(TakeText(), "one");
  EXPECT_EQ(TakeText(), "two");
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
}

TEST_P(FeedTransportTest, TheNodeSaysWhichItemsItHas) {
  StartServer(SmallMemory(1));
  const PartitionKey key{.job = {9}, .epoch = 0, .partition = 5};
  {
    std::unique_ptr<FeedClient> client = Connect();
    EXPECT_THAT(RangesOf(*client->Count(key, 0)), IsEmpty());
    ASSERT_TRUE(client->Open({.key = key}).ok()) << "on the same connection";
    ASSERT_TRUE(Put(*client, "rows", 7).ok());
    ASSERT_TRUE(Put(*client, "no rows", 0, 7).ok());
    ASSERT_TRUE(Put(*client, "later rows", 2, 10).ok());
    EXPECT_TRUE(Eventually([&] { return server_->counters().chunks == 3; }));
  }
  for (int i = 0; i < 3; ++i) TakeText();
  {
    std::unique_ptr<FeedClient> client = Connect();
    EXPECT_THAT(RangesOf(*client->Count(key, 0)), ElementsAre(ItemRange{0, 7}, ItemRange{10, 12}));
    ASSERT_TRUE(client->Open({.key = key}).ok());
    ASSERT_TRUE(Put(*client, "more", 3, 7).ok());
    const Result<Ended> ended = client->Finish();
    ASSERT_TRUE(ended.ok());
    EXPECT_EQ(ended->accepted_items, 3u);
  }
  EXPECT_THAT(RangesOf(*Connect()->Count(key, 2)), ElementsAre(ItemRange{0, 12}));
  EXPECT_THAT(RangesOf(*Connect()->Count({.job = {9}, .epoch = 1, .partition = 5}, 0)), IsEmpty());
}

TEST_P(FeedTransportTest, CountingNeedsNoMemoryAndLeavesNoTrace) {
  StartServer(SmallMemory(1));
  std::unique_ptr<FeedClient> holder = Open(Mode::kTrain, 1);
  {
    std::unique_ptr<FeedClient> client = Connect();
    EXPECT_TRUE(client->Count({.partition = 2}, 0).ok());
    EXPECT_EQ(server_->counters().open_sessions, 1u);
  }
  ASSERT_TRUE(holder->Finish().ok());
  EXPECT_EQ(server_->counters().broken_sessions, 0u);
}

TEST_P(FeedTransportTest, ALongAnswerComesInPieces) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  constexpr std::uint64_t kChunks = 5'000;
  for (std::uint64_t i = 0; i < kChunks; ++i) ASSERT_TRUE(Put(*client, "x", 1, 2 * i).ok());
  ASSERT_TRUE(client->Finish().ok());
  const Result<Counted> counted = Connect()->Count({}, 1);
  ASSERT_TRUE(counted.ok()) << counted.status().DebugString();
  EXPECT_EQ(RangesOf(*counted).size(), kChunks);
  EXPECT_EQ(RangesOf(*counted).back(), (ItemRange{2 * kChunks - 2, 2 * kChunks - 1}));
}

TEST_P(FeedTransportTest, ANewerAttemptTakesAPartitionOver) {
  StartServer();
  std::unique_ptr<FeedClient> old = Connect();
  ASSERT_TRUE(old->Open({.key = {.partition = 5}, .attempt = 0}).ok());
  ASSERT_TRUE(Put(*old, "rows", 7).ok());
  EXPECT_TRUE(Eventually([&] { return server_->counters().items == 7; }));
  std::unique_ptr<FeedClient> fresh = Connect();
  const Result<Counted> counted = fresh->Count({.partition = 5}, 1);
  ASSERT_TRUE(counted.ok());
  EXPECT_THAT(RangesOf(*counted), ElementsAre(ItemRange{0, 7}));
  const Result<Ended> ended = old->Finish();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.status().kind(), ErrorKind::kSuperseded);
  EXPECT_THAT(ended.status().ToString(),
              HasSubstr("task attempt 1 at the same partition took over"));
  // Nor may it come back.
  EXPECT_EQ(Connect()->Count({.partition = 5}, 0).status().kind(), ErrorKind::kSuperseded);
  EXPECT_EQ(Connect()->Open({.key = {.partition = 5}}).status().kind(), ErrorKind::kSuperseded);
  ASSERT_TRUE(fresh->Open({.key = {.partition = 5}, .attempt = 1}).ok());
  ASSERT_TRUE(Put(*fresh, "rest", 3, 7).ok());
  EXPECT_TRUE(fresh->Finish().ok());
  EXPECT_EQ(server_->counters().items, 10u);
}

TEST_P(FeedTransportTest, InferencePartitionsAreAnsweredOneAfterTheOther) {
  StartServer();
  std::unique_ptr<FeedClient> first = Open(Mode::kInference, 11);
  std::unique_ptr<FeedClient> second = Open(Mode::kInference, 22);
  ASSERT_TRUE(Put(*first, "a", 1).ok());
  EXPECT_TRUE(Eventually([&] { return server_->counters().chunks == 1; }));
  ASSERT_TRUE(Put(*second, "x", 1).ok());
  ASSERT_TRUE(second->End().ok());
  EXPECT_TRUE(Eventually([&] { return server_->counters().chunks == 2; }));
  ASSERT_TRUE(Put(*first, "b", 1).ok());
  ASSERT_TRUE(first->End().ok());

  std::vector<std::string> order;
  std::vector<std::uint64_t> sessions;
  while (sessions.size() < 2) {
    Result<Next> next = Take();
    ASSERT_TRUE(next.ok()) << next.status().DebugString();
    if (const auto* end = std::get_if<PartitionEnd>(&*next)) {
      EXPECT_FALSE(end->broken);
      order.push_back(fmt::format("end {}", end->partition));
      sessions.push_back(end->session);
      const std::uint64_t rows = end->partition == 11 ? 2 : 1;
      EXPECT_EQ(*server_->FinishSession(end->session, rows), Delivery::kSent);
      continue;
    }
    auto& loan = std::get<ChunkLoan>(*next);
    const std::string text = AsString(loan.bytes());
    order.push_back(text);
    const std::string answer = text + "!";
    EXPECT_EQ(*server_->SendResult(loan.session(), 1, Copied(answer), {}), Delivery::kSent);
  }
  EXPECT_THAT(order, ::testing::ElementsAre("a", "b", "end 11", "x", "end 22"));

  const auto answers = [](FeedClient& client) {
    std::vector<std::string> texts;
    for (;;) {
      Result<std::optional<ResultChunk>> result = client.TakeResult(true);
      EXPECT_TRUE(result.ok()) << result.status().DebugString();
      if (!result.ok() || !*result) return texts;
      texts.push_back(AsString((*result)->bytes.bytes()));
    }
  };
  EXPECT_THAT(answers(*first), ::testing::ElementsAre("a!", "b!"));
  EXPECT_THAT(answers(*second), ::testing::ElementsAre("x!"));
  const Result<Ended> ended = first->Finish();
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->accepted_items, 2u);
  EXPECT_EQ(ended->result_rows, 2u);
}

// Input fills the region and results fill the queue, with one thread on each side: it ends only
// when waiting for the one never keeps from taking the other.
TEST_P(FeedTransportTest, BackPressureBothWaysDoesNotDeadlock) {
  FeedServerOptions options = SmallMemory(1);
  options.result_queue_bytes = 100'000;
  StartServer(std::move(options));
  constexpr int kChunks = 200;
  std::thread node([&] {
    for (;;) {
      Result<Next> next = Take();
      ASSERT_TRUE(next.ok());
      if (const auto* end = std::get_if<PartitionEnd>(&*next)) {
        EXPECT_EQ(*server_->FinishSession(end->session, kChunks), Delivery::kSent);
        return;
      }
      auto& loan = std::get<ChunkLoan>(*next);
      const std::string answer(70'000, static_cast<char>(loan.bytes()[0]));
      ASSERT_TRUE(
          server_
              ->SendResult(loan.session(), 1, Copied(answer), {.deadline = Deadline::After(kLong)})
              .ok());
    }
  });
  std::unique_ptr<FeedClient> client = Open(Mode::kInference);
  for (int i = 0; i < kChunks; ++i) {
    ASSERT_TRUE(Put(*client, std::string(20'000, static_cast<char>('a' + i % 26))).ok());
  }
  ASSERT_TRUE(client->End().ok());
  for (int i = 0; i < kChunks; ++i) {
    Result<std::optional<ResultChunk>> result = client->TakeResult(true);
    ASSERT_TRUE(result.ok() && *result) << i;
    EXPECT_EQ((*result)->bytes.size(), 70'000u);
    EXPECT_EQ((*result)->rows, 1u);
    EXPECT_EQ((*result)->bytes.bytes()[69'999], static_cast<std::byte>('a' + i % 26));
  }
  ASSERT_TRUE(client->Finish().ok());
  node.join();
}

TEST_P(FeedTransportTest, SendResultWaitsForAFeederThatDoesNotRead) {
  FeedServerOptions options;
  options.result_queue_bytes = 1'000'000;
  StartServer(std::move(options));
  std::unique_ptr<FeedClient> client = Open(Mode::kInference);
  ASSERT_TRUE(Put(*client, "row").ok());
  Result<Next> next = Take();
  ASSERT_TRUE(next.ok());
  const std::uint64_t session = std::get<ChunkLoan>(*next).session();
  const std::string answer(900'000, 'r');
  int sent = 0;
  Status status;
  // The kernel takes some; far less than 1,000 times as much.
  while (status.ok() && sent < 1'000) {
    status = server_->SendResult(session, 1, Copied(answer), {.deadline = Deadline::After(100ms)})
                 .status();
    sent += status.ok() ? 1 : 0;
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kRetryLater);
  for (int i = 0; i < sent; ++i) {
    Result<std::optional<ResultChunk>> result = client->TakeResult(true);
    ASSERT_TRUE(result.ok() && *result);
    EXPECT_EQ((*result)->bytes.size(), answer.size());
  }
}

TEST_P(FeedTransportTest, ABrokenInferencePartitionIsDroppedAndItsResultsToo) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kInference, 4);
  ASSERT_TRUE(Put(*client, "seen").ok());
  ASSERT_TRUE(Put(*client, "unseen").ok());
  Result<Next> next = Take();
  ASSERT_TRUE(next.ok());
  const std::uint64_t session = std::get<ChunkLoan>(*next).session();
  std::get<ChunkLoan>(*next).Release();
  client.reset();
  EXPECT_TRUE(Eventually([&] { return server_->counters().open_sessions == 0; }));
  EXPECT_EQ(TakeText(), "broken 4");
  EXPECT_EQ(*server_->SendResult(session, 1, {}, {}), Delivery::kDiscarded);
  EXPECT_EQ(*server_->FinishSession(session, 1), Delivery::kDiscarded);
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
  EXPECT_EQ(server_->counters().queued_chunks, 0u);
}

TEST_P(FeedTransportTest, AWrongNumberOfResultsIsAnErrorOnBothSides) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kInference, 4);
  ASSERT_TRUE(Put(*client, "rows", 2).ok());
  Result<Next> next = Take();
  ASSERT_TRUE(next.ok());
  const std::uint64_t session = std::get<ChunkLoan>(*next).session();
  EXPECT_FALSE(server_->FinishSession(session, 0).ok()) << "the partition goes on";
  ASSERT_TRUE(client->End().ok());
  EXPECT_EQ(TakeText(), "end 4");
  ASSERT_TRUE(server_->SendResult(session, 1, {}, {}).ok());
  const Result<Delivery> finished = server_->FinishSession(session, 2);
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(finished.status().kind(), ErrorKind::kBadInput);
  const Result<Ended> ended = client->Finish();
  ASSERT_FALSE(ended.ok());
  EXPECT_THAT(ended.status().ToString(),
              HasSubstr("partition 4 has 2 rows, and 1 results were given"));
}

TEST_P(FeedTransportTest, AResultBeyondTheLimitIsRefused) {
  FeedServerOptions options;
  options.result_limit_bytes = 100;
  StartServer(std::move(options));
  std::unique_ptr<FeedClient> client = Open(Mode::kInference);
  ASSERT_TRUE(Put(*client, "row").ok());
  Result<Next> next = Take();
  ASSERT_TRUE(next.ok());
  const Result<Delivery> sent = server_->SendResult(std::get<ChunkLoan>(*next).session(), 1,
                                                    Copied(std::string(101, 'a')), {});
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.status().kind(), ErrorKind::kBadInput);
}

TEST_P(FeedTransportTest, ANodeThatWouldSendResultsWithoutLimitIsRefused) {
  FeedServerOptions options;
  options.result_limit_bytes = ~std::uint32_t{0};
  StartServer(std::move(options));
  const Result<Opened> opened = Connect()->Open({.mode = Mode::kInference});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().kind(), ErrorKind::kBadInput);
  EXPECT_THAT(opened.status().ToString(), HasSubstr("wants to send results of 4294967295 bytes"));
}

// The current partition grows while a later one holds the whole budget and is not consumed before
// the current one has ended.
TEST_P(FeedTransportTest, TheCurrentInferencePartitionNeverWaitsForLaterOnes) {
  StartServer(SmallMemory(2));
  std::unique_ptr<FeedClient> current = Open(Mode::kInference, 1);
  std::unique_ptr<FeedClient> later = Open(Mode::kInference, 2);
  ASSERT_TRUE(Put(*current, "small").ok());
  EXPECT_EQ(TakeText(), "small");
  ASSERT_TRUE(Put(*later, "waiting").ok());
  const std::string large(2 * kSmallRegion, 'x');
  ASSERT_TRUE(Put(*current, large).ok());
  ASSERT_TRUE(current->End().ok());
  EXPECT_TRUE(TakeText() == large);
  EXPECT_EQ(TakeText(), "end 1");
  EXPECT_EQ(TakeText(), "waiting");
}

TEST_P(FeedTransportTest, EndFeedLetsOpenPartitionsFinish) {
  StartServer(SmallMemory(1));
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain, 0);
  Opened waiting_opened;
  std::thread waiting([&] {
    std::unique_ptr<FeedClient> other = Connect();
    const Result<Opened> opened = other->Open({.key = {.partition = 1}});
    ASSERT_TRUE(opened.ok());
    waiting_opened = *opened;
  });
  EXPECT_TRUE(Eventually([&] { return server_->counters().open_sessions == 2; }));
  server_->EndFeed();
  waiting.join();
  EXPECT_TRUE(waiting_opened.feed_over) << "it was not given memory yet";
  ASSERT_TRUE(Put(*client, "late").ok());
  ASSERT_TRUE(client->Finish().ok());
  EXPECT_EQ(TakeText(), "late");
  EXPECT_EQ(TakeText(), "over");
  std::unique_ptr<FeedClient> too_late = Connect();
  const Result<Opened> opened = too_late->Open({});
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->feed_over);
  EXPECT_TRUE(too_late->stopped());
}

TEST_P(FeedTransportTest, TerminateStopsFeedersThatWaitAndThoseThatCome) {
  StartServer(SmallMemory(1));
  std::thread feeder([&] {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
    while (!client->stopped()) {
      ASSERT_TRUE(Put(*client, std::string(20'000, 'x')).ok());
    }
    const Result<std::span<std::byte>> room = client->Reserve(10);
    ASSERT_TRUE(room.ok());
    EXPECT_TRUE(room->empty());
    EXPECT_TRUE(client->Commit(10, {0, 1}).ok());
    const Result<Ended> ended = client->Finish();
    ASSERT_TRUE(ended.ok());
    EXPECT_TRUE(ended->stopped);
  });
  EXPECT_TRUE(Eventually([&] { return server_->counters().queued_chunks == 3; }));
  server_->Terminate();
  feeder.join();
  EXPECT_TRUE(server_->terminated());
  EXPECT_EQ(TakeText(), "over");
  EXPECT_EQ(server_->counters().queued_bytes, 0u);
  EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
  std::unique_ptr<FeedClient> late = Connect();
  const Result<Opened> opened = late->Open({});
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->feed_over);
}

TEST_P(FeedTransportTest, AFailureReachesFeedersThatWaitAndThoseThatCome) {
  StartServer(SmallMemory(1));
  Status seen;
  std::thread feeder([&] {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
    while (seen.ok()) seen = Put(*client, std::string(20'000, 'x'));
  });
  EXPECT_TRUE(Eventually([&] { return server_->counters().queued_chunks == 3; }));
  server_->Fail("Traceback: ValueError");
  feeder.join();
  EXPECT_EQ(seen.ToString(), "node 3 on host 127.0.0.1: Traceback: ValueError");
  std::unique_ptr<FeedClient> late = Connect();
  EXPECT_THAT(late->Open({}).status().ToString(), HasSubstr("ValueError"));
  EXPECT_EQ(TakeText(), "over");
}

TEST_P(FeedTransportTest, AFailureIsDeliveredEvenIfTheNodeClosesAtOnce) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  ASSERT_TRUE(Put(*client, "unread").ok());
  server_->Fail("Traceback: ValueError");
  server_.reset();
  const Result<Ended> ended = client->Finish();
  ASSERT_FALSE(ended.ok());
  EXPECT_THAT(ended.status().ToString(), HasSubstr("ValueError"));
}

TEST_P(FeedTransportTest, AFeederThatWaitsSeesTheNodeGo) {
  StartServer(SmallMemory(1));
  Status seen;
  std::thread feeder([&] {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
    while (seen.ok()) seen = Put(*client, std::string(20'000, 'x'));
  });
  EXPECT_TRUE(Eventually([&] { return server_->counters().queued_chunks == 3; }));
  server_.reset();
  feeder.join();
  EXPECT_EQ(seen.kind(), ErrorKind::kReconnect);
  EXPECT_THAT(seen.ToString(), HasSubstr("node 3 on host 127.0.0.1 closed the feed connection"));
}

TEST_P(FeedTransportTest, NoProgressSaysWhichSideIsIdle) {
  StartServer(SmallMemory(1));
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain, 0, {.progress_timeout = 50ms});
  ASSERT_TRUE(Put(*client, std::string(kSmallRegion, 'x')).ok());
  const Status status = client->Reserve(1).status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kRetryLater);
  EXPECT_EQ(status.ToString(),
            "node 3 on host 127.0.0.1 took no chunk for 0.05 s (it holds 1 chunk of this feeder); "
            "its program is busy or stuck: look at the node's log, or raise feed_timeout if a step "
            "takes that long");
}

TEST_P(FeedTransportTest, TheInterruptCheckEndsEveryWait) {
  StartServer(SmallMemory(1));
  const Status cancelled(ErrorKind::kBadInput, "the task was cancelled");
  std::unique_ptr<FeedClient> client =
      Open(Mode::kTrain, 0, {.progress_timeout = kLong, .check = [&] { return cancelled; }});
  ASSERT_TRUE(Put(*client, std::string(kSmallRegion, 'x')).ok());
  EXPECT_EQ(client->Reserve(1).status().ToString(), cancelled.ToString());
  TakeText();
  const Result<Next> next = server_->Next(
      "input", {.deadline = Deadline::After(kLong), .check = [&] { return cancelled; }});
  EXPECT_EQ(next.status().ToString(), cancelled.ToString());
}

TEST_P(FeedTransportTest, QueuesAreKeptApart) {
  FeedServerOptions options;
  options.queues = {"input", "other"};
  StartServer(std::move(options));
  std::unique_ptr<FeedClient> client = Connect();
  ASSERT_TRUE(client->Open({.queue = "other"}).ok());
  ASSERT_TRUE(Put(*client, "for other").ok());
  const Wait wait{.deadline = Deadline::After(kLong)};
  const Result<Next> next = server_->Next("other", wait);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(AsString(std::get<ChunkLoan>(*next).bytes()), "for other");
  const Status empty = server_->Next("input", {.deadline = Deadline::After(1ms)}).status();
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.kind(), ErrorKind::kRetryLater);
  EXPECT_EQ(server_->Next("nobody", wait).status().kind(), ErrorKind::kBadInput);
  const Status unknown = Connect()->Open({.queue = "nobody"}).status();
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.kind(), ErrorKind::kBadInput);
  EXPECT_THAT(unknown.ToString(), HasSubstr("no queue 'nobody'"));
}

TEST_P(FeedTransportTest, WrongCallsAreRefused) {
  StartServer();
  std::unique_ptr<FeedClient> client = Connect();
  EXPECT_FALSE(client->Reserve(10).ok()) << "before Open";
  ASSERT_TRUE(client->Open({}).ok());
  EXPECT_FALSE(client->Open({}).ok()) << "twice";
  EXPECT_FALSE(client->Reserve(0).ok());
  EXPECT_FALSE(client->Commit(1, {0, 1}).ok()) << "nothing is reserved";
  ASSERT_TRUE(client->Reserve(10).ok());
  EXPECT_FALSE(client->Count({}, 0).ok()) << "after Open";
  EXPECT_FALSE(client->Commit(11, {0, 1}).ok());
  ASSERT_TRUE(client->Commit(10, {0, 1}).ok());
  ASSERT_TRUE(client->Finish().ok());
  EXPECT_FALSE(client->Reserve(10).ok()) << "after End";
}

// A process of its own, so that it can be killed.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) : pid_(::fork()) {
    if (pid_ != 0) return;
    body();
    ::_exit(0);
  }
  ~Child() {
    if (pid_ > 0) Kill();
  }
  void Kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  pid_t pid_;
};

TEST_P(FeedTransportTest, AKilledFeederHarmsNobody) {
  // Forked before the server has a thread: the child connects to what it reads from the pipe.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Channel channel = GetParam();
  Child feeder([&] {
    ::close(ends[1]);
    char name[108] = {};
    std::uint16_t port = 0;
    if (::read(ends[0], &port, sizeof(port)) != sizeof(port)) return;
    if (::read(ends[0], name, sizeof(name)) < 0) return;
    Result<std::unique_ptr<FeedClient>> client = FeedClient::Connect(
        {.unix_name = channel != Channel::kMemory ? "" : name,
         .host = "127.0.0.1",
         .port = port,
         .node_id = 3},
        key_, {.progress_timeout = kLong, .encryption = EncryptionOf(GetParam())},
        Deadline::After(kLong));
    if (!client.ok() || !(*client)->Open({.key = {.partition = 8}}).ok()) return;
    std::uint64_t first = 0;
    while (Put(**client, std::string(3'000, 'k'), 10, first).ok()) first += 10;
  });
  ::close(ends[0]);
  StartServer(SmallMemory(1));
  const Endpoint endpoint = server_->endpoint();
  ASSERT_EQ(::write(ends[1], &endpoint.port, sizeof(endpoint.port)), 2);
  ASSERT_GT(::write(ends[1], endpoint.unix_name.data(), endpoint.unix_name.size()), 0);
  ::close(ends[1]);

  for (int i = 0; i < 100; ++i) ASSERT_EQ(TakeText(), std::string(3'000, 'k'));
  feeder.Kill();
  EXPECT_TRUE(Eventually([&] { return server_->counters().open_sessions == 0; }));

  std::unique_ptr<FeedClient> retry = Connect();
  const Result<Counted> accepted = retry->Count({.partition = 8}, 1);
  ASSERT_TRUE(accepted.ok()) << accepted.status().DebugString();
  EXPECT_THAT(RangesOf(*accepted), ElementsAre(ItemRange{0, server_->counters().items}));
  std::thread reopen([&] {
    const Result<Opened> opened = retry->Open({.key = {.partition = 8}, .attempt = 1});
    ASSERT_TRUE(opened.ok()) << opened.status().DebugString();
  });
  // Its region comes back once its last chunks are consumed.
  while (server_->counters().queued_chunks > 0) ASSERT_EQ(TakeText(), std::string(3'000, 'k'));
  reopen.join();
  ASSERT_TRUE(Put(*retry, "again").ok());
  EXPECT_EQ(TakeText(), "again");
}

TEST_P(FeedTransportTest, AKilledNodeIsSeenAtOnce) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Child node([&] {
    ::close(ends[0]);
    StartServer(SmallMemory(1));
    const Endpoint endpoint = server_->endpoint();
    if (::write(ends[1], &endpoint.port, sizeof(endpoint.port)) < 0) return;
    if (::write(ends[1], endpoint.unix_name.data(), endpoint.unix_name.size()) < 0) return;
    ::close(ends[1]);
    ::pause();
  });
  ::close(ends[1]);
  std::uint16_t port = 0;
  char name[108] = {};
  ASSERT_EQ(::read(ends[0], &port, sizeof(port)), 2);
  ASSERT_GT(::read(ends[0], name, sizeof(name)), 0);
  ::close(ends[0]);
  Result<std::unique_ptr<FeedClient>> client =
      FeedClient::Connect({.unix_name = GetParam() != Channel::kMemory ? "" : name,
                           .host = "127.0.0.1",
                           .port = port,
                           .node_id = 3},
                          key_, {.progress_timeout = kLong, .encryption = EncryptionOf(GetParam())},
                          Deadline::After(kLong));
  ASSERT_TRUE(client.ok()) << client.status().DebugString();
  ASSERT_TRUE((*client)->Open({}).ok());
  ASSERT_TRUE(Put(**client, "row").ok());
  node.Kill();
  const Result<Ended> ended = (*client)->Finish();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.status().kind(), ErrorKind::kReconnect);
  EXPECT_THAT(ended.status().ToString(), HasSubstr("node 3 on host 127.0.0.1 closed"));
}

}  // namespace
}  // namespace tfos::feed
