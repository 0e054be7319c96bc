// Feeders over TCP, whose process has no memory for what they send or get.

#include "testing/scarce_memory.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>

#include "feed/feeder/client/feed_client.h"
#include "feed/node/feed_server.h"

namespace tfos::feed {
namespace {

constexpr std::chrono::seconds kLong(60);
constexpr std::size_t kBytes = 10'000;

class ScarceMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = FeedServer::Start({.key = key_, .cluster_id = "c1", .bind_address = "127.0.0.1"});
    ASSERT_TRUE(server.ok()) << server.status().DebugString();
    server_ = std::move(*server);
    Endpoint endpoint = server_->endpoint();
    endpoint.host = "127.0.0.1";
    endpoint.unix_name.clear();
    auto client =
        FeedClient::Connect(endpoint, key_, {.progress_timeout = kLong}, Deadline::After(kLong));
    ASSERT_TRUE(client.ok()) << client.status().DebugString();
    client_ = std::move(*client);
    ASSERT_TRUE(client_->Open({.mode = Mode::kInference}).ok());
  }

  const Secret key_ = Secret::Generate().value();
  std::unique_ptr<FeedServer> server_;
  std::unique_ptr<FeedClient> client_;
};

// A timeout would send people to the node's log.
TEST_F(ScarceMemoryTest, AChunkThatNoMemoryIsLeftForIsNoTimeout) {
  const ScarceMemory scarce(kBytes - 1);
  EXPECT_EQ(client_->Reserve(kBytes).status().kind(), ErrorKind::kNoResources);
}

// Covers: memory exhausted / inference
TEST_F(ScarceMemoryTest, AResultThatNoMemoryIsLeftForIsNoTimeout) {
  const auto room = client_->Reserve(1);
  ASSERT_TRUE(room.ok()) << room.status().DebugString();
  (*room)[0] = std::byte{1};
  ASSERT_TRUE(client_->Commit(1, {0, 1}).ok());
  const auto next = server_->Next("input", {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(next.ok()) << next.status().DebugString();
  AlignedBuffer answer(kBytes);
  std::memset(answer.bytes().data(), 0, kBytes);
  ASSERT_TRUE(
      server_->SendResult(std::get<ChunkLoan>(*next).session(), 1, std::move(answer), {}).ok());
  const ScarceMemory scarce(kBytes - 1);
  EXPECT_EQ(client_->TakeResult(true).status().kind(), ErrorKind::kNoResources);
}

}  // namespace
}  // namespace tfos::feed
