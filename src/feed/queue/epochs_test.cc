#include "feed/queue/epochs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace tfos::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// "chunk 3", "end 0", "kept 1": what consumers get, until there is nothing.
std::vector<std::string> TakeAll(Epochs& epochs) {
  std::vector<std::string> taken;
  while (const auto item = epochs.Take()) {
    if (const auto* chunk = std::get_if<QueuedChunk>(&*item)) {
      taken.push_back("chunk " + std::to_string(chunk->number));
    } else if (const auto* end = std::get_if<FeedQueue::EpochEnd>(&*item)) {
      taken.push_back("end " + std::to_string(end->epoch));
    } else if (const auto* kept = std::get_if<FeedQueue::CachedChunk>(&*item)) {
      taken.push_back("kept " + std::to_string(kept->index));
    }
  }
  return taken;
}

SessionOptions Replayed(std::uint32_t epoch, std::uint32_t replays) {
  return {.key = {.epoch = epoch},
          .replay = {.place = CachePlace::kMemory, .epochs = replays, .shuffle_seed = 0}};
}

class EpochsTest : public ::testing::Test {
 protected:
  std::shared_ptr<CachedEpoch> CacheFor(const SessionOptions& options) {
    Epochs::Place place = epochs_.CacheFor(options, [this](CachePlace where) {
      ++made_;
      return std::make_shared<CachedEpoch>(where, account_, ::testing::TempDir());
    });
    dropped_ = std::move(place.dropped);
    return std::move(place.cache);
  }

  Epochs epochs_;
  int made_ = 0;
  std::shared_ptr<CachedEpoch> dropped_;  ///< By the last call.
  const std::shared_ptr<CacheAccount> account_ = std::make_shared<CacheAccount>(1 << 20);
};

TEST_F(EpochsTest, EachEpochEndsOnceBehindItsChunks) {
  epochs_.chunks().PushTrain({.number = 1, .bytes = {}});
  epochs_.EndBefore(1);
  epochs_.EndBefore(1);
  epochs_.chunks().PushTrain({.number = 2, .bytes = {}});
  epochs_.EndBefore(3);
  EXPECT_EQ(epochs_.first_open(), 3u);
  EXPECT_THAT(TakeAll(epochs_), ElementsAre("chunk 1", "end 0", "chunk 2", "end 1", "end 2"));
}

TEST_F(EpochsTest, AnEpochFarAheadCannotBeMeant) {
  EXPECT_TRUE(epochs_.Check(0, 0).ok());
  EXPECT_TRUE(epochs_.Check(1 << 16, 1 << 16).ok());
  EXPECT_FALSE(epochs_.Check((1 << 16) + 1, 0).ok());
  EXPECT_THAT(epochs_.Check(0, (1 << 16) + 1).ToString(),
              ::testing::HasSubstr("65536 is the most"));
  epochs_.EndBefore(1);
  EXPECT_TRUE(epochs_.Check((1 << 16) + 1, 0).ok());
}

TEST_F(EpochsTest, EpochsThatNobodyTakesDoNotPileUp) {
  epochs_.EndBefore((1 << 16) + 1);
  const Status refused = epochs_.Check((1 << 16) + 2, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.ToString(), ::testing::HasSubstr("has taken 65537 of the ends of epochs"));
  EXPECT_TRUE(epochs_.Check((1 << 16) + 1, 0).ok()) << "the current one ends none";
  ASSERT_TRUE(epochs_.Take().has_value());
  EXPECT_TRUE(epochs_.Check((1 << 16) + 2, 0).ok());
  epochs_.EndBefore((1 << 16) + 2);
  EXPECT_FALSE(epochs_.Check((1 << 16) + 3, 0).ok());
  epochs_.Clear();
  EXPECT_TRUE(epochs_.Check((1 << 16) + 3, 0).ok());
}

TEST_F(EpochsTest, AReplayFollowsTheEndOfItsEpoch) {
  const std::shared_ptr<CachedEpoch> cache = CacheFor(Replayed(0, 2));
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(CacheFor(Replayed(0, 2)), cache) << "one for all partitions of the epoch";
  EXPECT_EQ(made_, 1);
  const std::vector<std::byte> bytes(8);
  ASSERT_TRUE(cache->Add(bytes, 1).ok());
  epochs_.EndBefore(1);
  EXPECT_EQ(epochs_.first_open(), 3u) << "the replays are epochs 1 and 2";
  EXPECT_THAT(TakeAll(epochs_), ElementsAre("end 0", "kept 0", "end 1", "kept 0", "end 2"));
}

TEST_F(EpochsTest, NothingIsKeptForNoReplayAndForAnEpochThatIsOver) {
  EXPECT_EQ(CacheFor({.key = {.epoch = 0}}), nullptr);
  SessionOptions inference = Replayed(0, 1);
  inference.mode = Mode::kInference;
  EXPECT_EQ(CacheFor(inference), nullptr);
  epochs_.EndBefore(1);
  EXPECT_EQ(CacheFor(Replayed(0, 1)), nullptr);
  EXPECT_EQ(made_, 0);
}

SessionOptions OfJob(std::uint8_t job, AttemptId attempt, std::uint32_t replays) {
  SessionOptions options = Replayed(0, replays);
  options.key.job = {job};
  options.attempt = attempt;
  return options;
}

TEST_F(EpochsTest, WhatAnInterruptedJobHadKeptIsNotReplayed) {
  const std::vector<std::byte> bytes(8);
  const std::shared_ptr<CachedEpoch> fragment = CacheFor(OfJob(1, 4, 9));
  ASSERT_TRUE(fragment->Add(bytes, 1).ok());
  const std::shared_ptr<CachedEpoch> whole = CacheFor(OfJob(2, 8, 1));
  EXPECT_EQ(dropped_, fragment);
  ASSERT_NE(whole, fragment);
  EXPECT_EQ(CacheFor(OfJob(1, 5, 9)), nullptr) << "a late task of the interrupted job";
  EXPECT_EQ(CacheFor(OfJob(2, 9, 1)), whole);
  ASSERT_TRUE(whole->Add(bytes, 1).ok());
  ASSERT_TRUE(whole->Add(bytes, 1).ok());
  epochs_.EndBefore(1);
  EXPECT_EQ(epochs_.first_open(), 2u);
  EXPECT_THAT(TakeAll(epochs_), ElementsAre("end 0", "kept 0", "kept 1", "end 1"));
}

TEST_F(EpochsTest, TheJobAfterAnInterruptedOneNeedNotReplay) {
  ASSERT_NE(CacheFor(OfJob(1, 4, 9)), nullptr);
  EXPECT_EQ(CacheFor(OfJob(2, 8, 0)), nullptr);
  EXPECT_EQ(CacheFor(OfJob(1, 5, 9)), nullptr);
  epochs_.EndBefore(1);
  EXPECT_THAT(TakeAll(epochs_), ElementsAre("end 0"));
}

TEST_F(EpochsTest, AnAbandonedEpochIsNotReplayedWhereTheNextJobBringsNothing) {
  const std::shared_ptr<CachedEpoch> fragment = CacheFor(OfJob(1, 4, 9));
  EXPECT_EQ(epochs_.Abandon(0, {1}), fragment);
  EXPECT_EQ(CacheFor(OfJob(1, 5, 9)), nullptr) << "a late task of the interrupted job";
  epochs_.EndBefore(1);
  EXPECT_EQ(epochs_.first_open(), 1u);
  EXPECT_THAT(TakeAll(epochs_), ElementsAre("end 0"));
  EXPECT_EQ(epochs_.Abandon(0, {1}), nullptr) << "it is over";
}

TEST_F(EpochsTest, TheNextJobMayComeBeforeTheEarlierOneIsAbandoned) {
  ASSERT_NE(CacheFor(OfJob(1, 4, 9)), nullptr);
  const std::shared_ptr<CachedEpoch> whole = CacheFor(OfJob(2, 8, 1));
  EXPECT_EQ(epochs_.Abandon(0, {1}), nullptr);
  EXPECT_EQ(CacheFor(OfJob(2, 9, 1)), whole);
}

TEST_F(EpochsTest, ALateTaskOfAJobThatNobodyHadHeardOfKeepsNothing) {
  EXPECT_EQ(epochs_.Abandon(0, {1}), nullptr);
  EXPECT_EQ(CacheFor(OfJob(1, 4, 9)), nullptr);
  EXPECT_NE(CacheFor(OfJob(2, 8, 1)), nullptr);
}

TEST_F(EpochsTest, ASampleIsNotKeptAndKeepsNoOtherPartitionFromIt) {
  EXPECT_EQ(CacheFor(OfJob(1, 4, 0)), nullptr) << "the sample comes first";
  const std::shared_ptr<CachedEpoch> cache = CacheFor(OfJob(1, 5, 1));
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(CacheFor(OfJob(1, 6, 0)), nullptr) << "or later";
  EXPECT_EQ(CacheFor(OfJob(1, 7, 1)), cache);
  epochs_.EndBefore(1);
  EXPECT_EQ(epochs_.first_open(), 2u);
}

TEST_F(EpochsTest, NoReplayBeginsWhileAChunkIsBeingCopied) {
  const std::shared_ptr<CachedEpoch> cache = CacheFor(Replayed(0, 1));
  epochs_.chunks().PushTrain({.number = 1, .bytes = {}});
  epochs_.EndBefore(1);
  ASSERT_TRUE(epochs_.Take().has_value());
  epochs_.BeginCopy();
  EXPECT_THAT(TakeAll(epochs_), ElementsAre("end 0"));
  EXPECT_FALSE(epochs_.settled()) << "something will come";
  const std::vector<std::byte> bytes(8);
  ASSERT_TRUE(cache->Add(bytes, 1).ok());
  epochs_.EndCopy();
  EXPECT_TRUE(epochs_.settled());
  EXPECT_THAT(TakeAll(epochs_), ElementsAre("kept 0", "end 1"));
}

TEST_F(EpochsTest, TheLastMarkOfAReplayBringsTheCacheToBeFreed) {
  std::weak_ptr<CachedEpoch> cache = CacheFor(Replayed(0, 1));
  epochs_.EndBefore(1);
  std::optional<FeedQueue::Item> item = epochs_.Take();
  EXPECT_EQ(std::get<FeedQueue::EpochEnd>(*item).replayed, nullptr);
  item = epochs_.Take();
  EXPECT_EQ(std::get<FeedQueue::EpochEnd>(*item).epoch, 1u);
  EXPECT_EQ(std::get<FeedQueue::EpochEnd>(*item).replayed, cache.lock());
  EXPECT_FALSE(cache.expired());
  item.reset();
  EXPECT_TRUE(cache.expired());
}

TEST_F(EpochsTest, ClearHandsOverChunksAndCaches) {
  std::weak_ptr<CachedEpoch> queued = CacheFor(Replayed(0, 1));
  epochs_.chunks().PushTrain({.number = 1, .bytes = {}});
  epochs_.EndBefore(1);
  std::weak_ptr<CachedEpoch> open = CacheFor(Replayed(2, 1));
  {
    const FeedQueue::Dropped dropped = epochs_.Clear();
    EXPECT_EQ(dropped.chunks.size(), 1u);
    EXPECT_EQ(dropped.caches.size(), 2u);
    EXPECT_FALSE(queued.expired() || open.expired());
  }
  EXPECT_TRUE(queued.expired() && open.expired());
  EXPECT_THAT(TakeAll(epochs_), IsEmpty());
}

}  // namespace
}  // namespace tfos::feed
