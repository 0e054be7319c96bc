// A node that has no memory for rows that it is to keep for later epochs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "feed/feeder/client/feed_client.h"
#include "feed/node/feed_server.h"
#include "testing/no_memory.h"

namespace tfos::feed {
namespace {

constexpr std::chrono::seconds kLong(60);
// The list of as many takes more than kMostBytes.
constexpr std::uint64_t kChunks = 200;
constexpr std::size_t kMostBytes = 4096;

TEST(ScarceCacheTest, AFeedWhoseRowsCannotBeKeptFails) {
  const Secret key = Secret::Generate().value();
  auto server = FeedServer::Start({.key = key, .cluster_id = "c1", .bind_address = ""});
  ASSERT_TRUE(server.ok()) << server.status().DebugString();
  auto client = FeedClient::Connect((*server)->endpoint(), key, {.progress_timeout = kLong},
                                    Deadline::After(kLong));
  ASSERT_TRUE(client.ok()) << client.status().DebugString();
  ASSERT_TRUE((*client)->Open({.replay = {.place = CachePlace::kMemory, .epochs = 1}}).ok());
  const Wait wait = {.deadline = Deadline::After(kLong)};
  Status failed;
  for (std::uint64_t item = 0; item < kChunks && failed.ok(); ++item) {
    const Result<std::span<std::byte>> room = (*client)->Reserve(1);
    ASSERT_TRUE(room.ok()) << room.status().DebugString();
    (*room)[0] = std::byte{1};
    ASSERT_TRUE((*client)->Commit(1, {item, item + 1}).ok());
    tfos::testing::refuses_memory = [](std::size_t bytes) { return bytes > kMostBytes; };
    failed = (*server)->Next("input", wait).status();
    tfos::testing::refuses_memory = nullptr;
  }
  EXPECT_EQ(failed.kind(), ErrorKind::kBadInput);
  EXPECT_THAT(failed.ToString(), ::testing::HasSubstr("can't keep the rows of the epoch"));
  EXPECT_THAT(failed.ToString(), ::testing::HasSubstr("no memory"));
}

}  // namespace
}  // namespace tfos::feed
