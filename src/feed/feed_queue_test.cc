#include "feed/feed_queue.h"

#include <gtest/gtest.h>

#include <optional>
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
  EXPECT_EQ(queue.Clear().size(), 2u);
  EXPECT_EQ(Take(queue), "nothing");
}

}  // namespace
}  // namespace tfos::feed
