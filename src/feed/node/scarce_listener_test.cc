// A node whose listener has no memory for what it is to say.

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "feed/feeder/client/feed_client.h"
#include "feed/node/feed_server.h"

namespace {

constexpr std::size_t kMostBytes = 4096;

/// The listener gets no more at once.
std::atomic<bool> memory_is_scarce = false;

bool MayAllocate(std::size_t bytes) {
  if (!memory_is_scarce || bytes <= kMostBytes) return true;
  char name[16] = {};
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  return std::string_view(name) != "tfos-feed";
}

}  // namespace

void* operator new(std::size_t size) {
  void* const memory = MayAllocate(size) ? std::malloc(size) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace tfos::feed {
namespace {

constexpr std::chrono::seconds kLong(60);
// The answer that lists as many takes more than kMostBytes.
constexpr std::uint64_t kChunks = 400;

// Covers: memory exhausted / feeding
TEST(ScarceListenerTest, FeedersNoticeThatItHasEnded) {
  const Secret key = Secret::Generate().value();
  auto server = FeedServer::Start({.key = key, .cluster_id = "c1", .bind_address = ""});
  ASSERT_TRUE(server.ok()) << server.status().DebugString();
  const auto connect = [&] {
    return FeedClient::Connect((*server)->endpoint(), key,
                               {.progress_timeout = std::chrono::seconds(5)},
                               Deadline::After(kLong));
  };
  auto client = connect();
  auto asking = connect();
  ASSERT_TRUE(client.ok() && asking.ok());
  ASSERT_TRUE((*client)->Open({}).ok());
  for (std::uint64_t item = 0; item < kChunks; ++item) {
    ASSERT_TRUE((*client)->Reserve(1).ok() && (*client)->Commit(1, {item, item + 1}).ok());
  }
  const Deadline in_time = Deadline::After(kLong);
  while ((*server)->counters().chunks < kChunks && !in_time.passed()) std::this_thread::yield();
  memory_is_scarce = true;
  EXPECT_EQ((*asking)->Count({}, 0).status().kind(), ErrorKind::kReconnect);
  memory_is_scarce = false;
  EXPECT_EQ((*client)->Finish().status().kind(), ErrorKind::kReconnect);
  EXPECT_EQ(connect().status().kind(), ErrorKind::kReconnect);
}

}  // namespace
}  // namespace tfos::feed
