// Inference partitions and their results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
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
#include "feed/node/feed_transport_fixture.h"

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

AlignedBuffer Copied(std::string_view text) {
  AlignedBuffer copy(text.size());
  std::memcpy(copy.bytes().data(), text.data(), text.size());
  return copy;
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
  EXPECT_GT(sent, 0);
  for (int i = 0; i < sent; ++i) {
    Result<std::optional<ResultChunk>> result = client->TakeResult(true);
    ASSERT_TRUE(result.ok() && *result);
    EXPECT_EQ((*result)->bytes.size(), answer.size());
  }
}

// Covers: feeding task killed / inference
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

TEST_P(FeedTransportTest, AFeederThatTakesNoResultsIsGivenUp) {
  FeedServerOptions options;
  options.results_patience = 1ms;
  StartServer(std::move(options));
  std::unique_ptr<FeedClient> frozen = Open(Mode::kInference, 11);
  ASSERT_TRUE(Put(*frozen, "a", 1).ok());
  Result<Next> next = Take();
  ASSERT_TRUE(next.ok()) << next.status().DebugString();
  const std::uint64_t session = std::get<ChunkLoan>(*next).session();
  next = Status(ErrorKind::kBug, "gives the chunk back");
  const std::string large(4 << 20, 'x');
  Delivery delivery = Delivery::kSent;
  while (delivery == Delivery::kSent) {
    const auto sent =
        server_->SendResult(session, 1, Copied(large), {.deadline = Deadline::After(kLong)});
    ASSERT_TRUE(sent.ok()) << sent.status().DebugString();
    delivery = *sent;
  }
  EXPECT_EQ(TakeText(), "broken 11");
  // Those behind it are answered.
  std::unique_ptr<FeedClient> behind = Open(Mode::kInference, 22);
  ASSERT_TRUE(Put(*behind, "x", 1).ok());
  EXPECT_EQ(TakeText(), "x");
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

}  // namespace
}  // namespace tfos::feed
