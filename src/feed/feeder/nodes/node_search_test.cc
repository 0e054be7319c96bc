#include "feed/feeder/nodes/node_search.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

namespace {

/// The threads that search get no memory.
std::atomic<bool> memory_is_scarce = false;

bool MayAllocate() {
  if (!memory_is_scarce) return true;
  char name[16] = {};
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  return std::string_view(name) != "tfos-find-nodes";
}

}  // namespace

void* operator new(std::size_t size) {
  void* const memory = MayAllocate() ? std::malloc(size) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace tfos::feed {
namespace {

TEST(NodeSearchTest, AThreadWithoutMemoryEndsTheSearch) {
  PartitionWriterOptions options;
  options.key = *Secret::FromHex(std::string(64, 'a'));
  for (std::uint32_t i = 0; i < 2; ++i) {
    options.endpoints.push_back({.unix_name = "tfos/nobody-listens-under-this-name",
                                 .host = "127.0.0.1",
                                 .port = 1,
                                 .node_id = i});
  }
  const Deadline hang = Deadline::After(std::chrono::seconds(30));
  options.check = [&] {
    return hang.passed() ? Status(ErrorKind::kInterrupted, "it hangs") : Status::Ok();
  };
  NodeFates fates(options);
  memory_is_scarce = true;
  const Result<FoundNodes> found =
      AskNodes(options, options.endpoints, fates, FeedClient::Ask::kChunks);
  memory_is_scarce = false;
  EXPECT_EQ(found.status().kind(), ErrorKind::kNoResources) << found.status().DebugString();
}

}  // namespace
}  // namespace tfos::feed
