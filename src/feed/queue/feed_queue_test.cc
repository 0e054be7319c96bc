#include "feed/queue/feed_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "base/format.h"

namespace tfos::feed {
namespace {

QueuedChunk Chunk(std::uint64_t session, std::uint64_t number) {
  return {.session = session, .number = number, .bytes = {}, .items = 1};
}

/// What Take gives: "chunk 1/0", "end 1", "broken 1", "epoch 1" or "nothing".
std::string Take(FeedQueue& queue) {
  const std::optional<FeedQueue::Item> item = queue.Take();
  if (!item) return "nothing";
  if (const auto* chunk = std::get_if<QueuedChunk>(&*item)) {
    return fmt::format("chunk {}/{}", chunk->session, chunk->number);
  }
  if (const auto* end = std::get_if<FeedQueue::EpochEnd>(&*item)) {
    return fmt::format("epoch {}", end->epoch);
  }
  if (const auto* cached = std::get_if<FeedQueue::CachedChunk>(&*item)) {
    return fmt::format("cached {}", cached->index);
  }
  const auto& end = std::get<FeedQueue::SessionEnd>(*item);
  return fmt::format("{} {}", end.broken ? "broken" : "end", end.session);
}

TEST(FeedQueueTest, TrainChunksComeInOrderOfArrival) {
  FeedQueue queue;
  queue.PushTrain(Chunk(1, 0));
  queue.PushTrain(Chunk(2, 0));
  queue.PushTrain(Chunk(1, 1));
  EXPECT_EQ(Take(queue), "chunk 1/0");
  EXPECT_EQ(Take(queue), "chunk 2/0");
  EXPECT_EQ(Take(queue), "chunk 1/1");
  EXPECT_EQ(Take(queue), "nothing");
}

TEST(FeedQueueTest, AnEpochEndsBehindItsChunks) {
  FeedQueue queue;
  queue.PushTrain(Chunk(1, 0));
  queue.PushEpochEnd(0);
  queue.PushEpochEnd(1);
  queue.PushTrain(Chunk(2, 0));
  EXPECT_EQ(Take(queue), "chunk 1/0");
  EXPECT_EQ(Take(queue), "epoch 0");
  EXPECT_EQ(Take(queue), "epoch 1");
  EXPECT_EQ(Take(queue), "chunk 2/0");
  EXPECT_EQ(Take(queue), "nothing");
}

std::shared_ptr<CachedEpoch> Cache(std::size_t chunks) {
  auto cache = std::make_shared<CachedEpoch>(CachePlace::kMemory,
                                             std::make_shared<CacheAccount>(1 << 20), "/tmp");
  for (std::size_t i = 0; i < chunks; ++i) {
    EXPECT_TRUE(cache->Add(std::vector<std::byte>(8), 1).ok());
  }
  return cache;
}

TEST(FeedQueueTest, AReplayComesInItsPlace) {
  FeedQueue queue;
  queue.PushTrain(Chunk(1, 0));
  queue.PushEpochEnd(0);
  queue.PushReplay(Cache(2), {.place = CachePlace::kMemory, .epochs = 2}, 1);
  queue.PushTrain(Chunk(2, 0));
  EXPECT_FALSE(queue.at_replay());
  EXPECT_EQ(Take(queue), "chunk 1/0");
  EXPECT_EQ(Take(queue), "epoch 0");
  EXPECT_TRUE(queue.at_replay());
  for (const char* epoch : {"epoch 1", "epoch 2"}) {
    EXPECT_EQ(Take(queue), "cached 0");
    EXPECT_EQ(Take(queue), "cached 1");
    EXPECT_EQ(Take(queue), epoch);
  }
  EXPECT_EQ(Take(queue), "chunk 2/0");
}

TEST(FeedQueueTest, AnEpochWithoutChunksIsReplayedAsThat) {
  FeedQueue queue;
  queue.PushReplay(Cache(0), {.place = CachePlace::kMemory, .epochs = 1}, 5);
  EXPECT_EQ(Take(queue), "epoch 5");
  EXPECT_EQ(Take(queue), "nothing");
}

TEST(FeedQueueTest, AShuffledReplayHasAnotherOrderInEachEpochAndEveryChunkOnce) {
  FeedQueue queue;
  queue.PushReplay(Cache(20), {.place = CachePlace::kMemory, .epochs = 3, .shuffle_seed = 7}, 1);
  std::set<std::string> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::string order;
    std::set<std::string> seen;
    for (int i = 0; i < 20; ++i) {
      const std::string chunk = Take(queue);
      seen.insert(chunk);
      order += chunk + ' ';
    }
    EXPECT_EQ(seen.size(), 20u);
    orders.insert(order);
    EXPECT_EQ(Take(queue).substr(0, 5), "epoch");
  }
  EXPECT_EQ(orders.size(), 3u);
}

TEST(FeedQueueTest, InferenceSessionsComeOneAfterTheOther) {
  FeedQueue queue;
  queue.AddSession(1, 7);
  queue.AddSession(2, 8);
  EXPECT_EQ(Take(queue), "nothing");
  queue.PushInference(Chunk(1, 0));
  queue.PushInference(Chunk(2, 0));
  EXPECT_EQ(Take(queue), "chunk 1/0");
  EXPECT_EQ(queue.current(), 1u);
  EXPECT_EQ(Take(queue), "nothing") << "session 1 may still bring something";
  queue.EndSession(2);
  queue.PushInference(Chunk(1, 1));
  queue.EndSession(1);
  EXPECT_EQ(Take(queue), "chunk 1/1");
  EXPECT_EQ(Take(queue), "end 1");
  EXPECT_EQ(Take(queue), "chunk 2/0");
  EXPECT_EQ(Take(queue), "end 2");
  EXPECT_EQ(Take(queue), "nothing");
}

TEST(FeedQueueTest, AnIdleFirstSessionHoldsNobodyUp) {
  FeedQueue queue;
  queue.AddSession(1, 0);
  queue.AddSession(2, 0);
  queue.PushInference(Chunk(2, 0));
  EXPECT_EQ(Take(queue), "chunk 2/0");
  EXPECT_EQ(queue.current(), 2u);
}

TEST(FeedQueueTest, EmptyPartitionsEndAtOnce) {
  FeedQueue queue;
  queue.AddSession(1, 0);
  queue.EndSession(1);
  EXPECT_EQ(Take(queue), "end 1");
}

TEST(FeedQueueTest, OnlyWhoSawSomethingHearsOfTheBreak) {
  FeedQueue queue;
  queue.AddSession(1, 0);
  queue.AddSession(2, 0);
  queue.PushInference(Chunk(1, 0));
  queue.PushInference(Chunk(1, 1));
  queue.PushInference(Chunk(2, 0));
  EXPECT_EQ(Take(queue), "chunk 1/0");
  EXPECT_EQ(queue.BreakSession(2).size(), 1u);
  EXPECT_EQ(queue.BreakSession(1).size(), 1u);
  EXPECT_EQ(Take(queue), "broken 1");
  EXPECT_EQ(Take(queue), "nothing");
}

TEST(FeedQueueTest, ClearReturnsEverything) {
  FeedQueue queue;
  queue.PushTrain(Chunk(3, 0));
  queue.PushEpochEnd(0);
  queue.AddSession(1, 0);
  queue.PushInference(Chunk(1, 0));
  EXPECT_EQ(queue.Clear().chunks.size(), 2u);
  EXPECT_EQ(Take(queue), "nothing");
}

}  // namespace
}  // namespace tfos::feed
