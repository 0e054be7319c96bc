#include "feed/node/session/feed_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "feed/wire/frame_reader.h"
#include "testing/stuck_log.h"

namespace tfos::feed {
namespace {

constexpr std::chrono::seconds kLong{30};

/// A feeder without a socket: what it says is handed to the sessions, as the listener does.
class Feeder {
 public:
  Feeder(FeedSessions& sessions, std::uint64_t id) : sessions_(sessions) {
    link_.id = id;
    link_.local = true;
  }

  FeederLink& link() { return link_; }

  Status Open(SessionOptions options) { return Say(Encode(options)); }
  Status Bring(std::uint64_t offset, std::uint64_t items) {
    return Say(Encode(
        ChunkMessage{.offset = offset, .bytes = 64, .first = 0, .items = items, .rows_read = 0}));
  }
  Status Count(const PartitionKey& key) { return Say(Encode(CountMessage{.key = key})); }
  Status End(std::uint64_t items) { return Say(EncodeEnd(items)); }
  void Go() { sessions_.Gone(link_, "its feeder is gone"); }
  /// The types of what it was told.
  std::vector<MessageType> Heard() {
    std::vector<MessageType> types;
    for (const OutFrame& frame : sessions_.TakePosted(link_)) types.push_back(TypeOf(frame.bytes));
    return types;
  }

 private:
  /// As it comes off the wire.
  Status Say(const std::string& frame) {
    FrameReader reader;
    reader.set_limits({.data = kDataLimit});
    const std::span<std::byte> space = reader.Space();
    std::memcpy(space.data(), frame.data(), frame.size());
    reader.Filled(frame.size());
    const Result<FrameReader::Event> event = reader.Next();
    if (!event.ok()) return event.status();
    return sessions_.OnMessage(link_, reader.type(), reader.body());
  }
  static MessageType TypeOf(const std::string& frame) {
    FrameReader reader;
    std::memcpy(reader.Space().data(), frame.data(), frame.size());
    reader.Filled(frame.size());
    EXPECT_TRUE(reader.Next().ok());
    return reader.type();
  }

  FeedSessions& sessions_;
  FeederLink link_;
};

SessionOptions Partition(std::uint32_t partition, bool until_read = false) {
  return {.key = {.partition = partition},
          .attempt = partition + 1,
          .region_bytes = 8192,
          .until_read = until_read};
}

FeedServerOptions Small() { return {.memory_budget_bytes = 1 << 20, .region_bytes = 8192}; }

ChunkLoan TakeChunk(FeedSessions& sessions) {
  Result<Next> next = sessions.Next("input", {.deadline = Deadline::After(kLong)});
  EXPECT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_TRUE(std::holds_alternative<ChunkLoan>(*next));
  return std::get<ChunkLoan>(std::move(*next));
}

/// What other threads can do while one stands still.
void UseFromAnotherThread(FeedSessions& sessions) {
  auto done = std::async(std::launch::async, [&sessions] {
    ChunkLoan loan = TakeChunk(sessions);
    loan.MarkRead(1);
    EXPECT_TRUE(loan.MapPrivately().ok());
    loan.Release();
    return sessions.counters().taken_items;
  });
  // Were the lock held, it would end only after what blocks was let go, which is later.
  ASSERT_EQ(done.wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(done.get(), 2u);
}

TEST(FeedSessionsTest, WaitsCountWhileTheyGoOn) {
  auto sessions = FeedSessions::Create({.memory_budget_bytes = 8192, .region_bytes = 8192});
  ASSERT_TRUE(sessions.ok());
  const auto grows = [&](std::chrono::nanoseconds FeedCounters::*wait) {
    const std::chrono::nanoseconds before = (*sessions)->counters().*wait;
    const Deadline deadline = Deadline::After(kLong);
    while ((*sessions)->counters().*wait <= before && !deadline.passed()) {
    }
    return (*sessions)->counters().*wait > before;
  };
  EXPECT_EQ((*sessions)->counters().consumer_wait.count(), 0);
  auto first_rows = std::async(std::launch::async, [&] { return TakeChunk(**sessions).items(); });
  EXPECT_TRUE(grows(&FeedCounters::consumer_wait));
  EXPECT_EQ((*sessions)->counters().feeder_wait.count(), 0);
  Feeder first(**sessions, 1);
  Feeder second(**sessions, 2);
  ASSERT_TRUE(first.Open(Partition(0)).ok());
  ASSERT_TRUE(second.Open(Partition(1)).ok());
  EXPECT_TRUE(grows(&FeedCounters::feeder_wait)) << "the first has all of the memory";
  ASSERT_TRUE(first.Bring(0, 2).ok());
  EXPECT_EQ(first_rows.get(), 2u);
  second.Go();
  const FeedCounters over = (*sessions)->counters();
  EXPECT_EQ((*sessions)->counters().consumer_wait, over.consumer_wait);
  EXPECT_EQ((*sessions)->counters().feeder_wait, over.feeder_wait);
  (*sessions)->Close();
  first.Go();
}

TEST(FeedSessionsTest, MemoryThatIsSlowToComeStopsNobodyElse) {
  std::promise<void> asked;
  std::promise<void> let_go;
  std::shared_future<void> go = let_go.get_future().share();
  int regions = 0;
  const auto source = [&, go](std::uint64_t bytes) {
    if (++regions == 2) {
      asked.set_value();
      go.wait();
    }
    return Region::Create(bytes);
  };
  auto sessions = FeedSessions::Create(Small(), source);
  ASSERT_TRUE(sessions.ok());
  Feeder first(**sessions, 1);
  Feeder second(**sessions, 2);
  ASSERT_TRUE(first.Open(Partition(0, /*until_read=*/true)).ok());
  ASSERT_TRUE(first.Bring(0, 2).ok());
  auto opened = std::async(std::launch::async, [&] { return second.Open(Partition(1)); });
  asked.get_future().wait();
  UseFromAnotherThread(**sessions);
  let_go.set_value();
  EXPECT_TRUE(opened.get().ok());
  EXPECT_THAT(second.Heard(), ::testing::Contains(MessageType::kOpened));
  (*sessions)->Close();
  first.Go();
  second.Go();
}

TEST(FeedSessionsTest, ALogThatTakesNothingStopsNobodyElse) {
  auto sessions = FeedSessions::Create(Small());
  ASSERT_TRUE(sessions.ok());
  Feeder first(**sessions, 1);
  Feeder second(**sessions, 2);
  ASSERT_TRUE(first.Open(Partition(0, /*until_read=*/true)).ok());
  ASSERT_TRUE(first.Bring(0, 2).ok());
  ASSERT_TRUE(second.Open(Partition(1)).ok());
  ASSERT_TRUE(second.Bring(0, 2).ok());
  testing::StuckLog log;
  auto gone = std::async(std::launch::async, [&second] { second.Go(); });
  log.AwaitWriter();
  UseFromAnotherThread(**sessions);
  EXPECT_EQ(gone.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  log.ReadUntil("partition 1 (task attempt 2) broke off");
  gone.get();
  (*sessions)->Close();
  first.Go();
}

TEST(FeedSessionsTest, AFeederThatGoesBeforeItHasBroughtRowsIsNoBreak) {
  auto sessions = FeedSessions::Create(Small());
  ASSERT_TRUE(sessions.ok());
  Feeder served_elsewhere(**sessions, 1);
  ASSERT_TRUE(served_elsewhere.Open(Partition(0)).ok());
  EXPECT_THAT(served_elsewhere.Heard(), ::testing::Contains(MessageType::kOpened));
  served_elsewhere.Go();
  EXPECT_EQ((*sessions)->counters().broken_sessions, 0u);
  Feeder killed(**sessions, 2);
  ASSERT_TRUE(killed.Open(Partition(1)).ok());
  ASSERT_TRUE(killed.Bring(0, 2).ok());
  killed.Go();
  EXPECT_EQ((*sessions)->counters().broken_sessions, 1u);
  (*sessions)->Close();
}

TEST(FeedSessionsTest, MemoryForASessionThatEndedMeanwhileIsGivenBack) {
  std::promise<void> asked;
  std::promise<void> let_go;
  const auto source = [&](std::uint64_t bytes) {
    asked.set_value();
    let_go.get_future().wait();
    return Region::Create(bytes);
  };
  auto sessions = FeedSessions::Create(Small(), source);
  ASSERT_TRUE(sessions.ok());
  Feeder feeder(**sessions, 1);
  auto opened = std::async(std::launch::async, [&] { return feeder.Open(Partition(0)); });
  asked.get_future().wait();
  EXPECT_EQ((*sessions)->counters().region_bytes_in_use, 8192u);
  (*sessions)->Terminate();
  let_go.set_value();
  EXPECT_TRUE(opened.get().ok());
  EXPECT_EQ((*sessions)->counters().region_bytes_in_use, 0u);
  EXPECT_THAT(feeder.Heard(), ::testing::ElementsAre(MessageType::kStop));
  feeder.Go();
}

TEST(FeedSessionsTest, AFeederThatGetsNoMemoryIsTold) {
  auto sessions = FeedSessions::Create(Small(), [](std::uint64_t) {
    return Result<std::unique_ptr<Region>>(Status(ErrorKind::kRetryLater, "no memory"));
  });
  ASSERT_TRUE(sessions.ok());
  Feeder feeder(**sessions, 1);
  EXPECT_TRUE(feeder.Open(Partition(0)).ok());
  EXPECT_THAT(feeder.Heard(), ::testing::ElementsAre(MessageType::kError));
  EXPECT_EQ((*sessions)->counters().region_bytes_in_use, 0u);
  feeder.Go();
}

TEST(FeedSessionsTest, AFeederThatAsksOnWithoutReadingIsRefused) {
  auto sessions = FeedSessions::Create(Small());
  ASSERT_TRUE(sessions.ok());
  Feeder feeder(**sessions, 1);
  Status status;
  std::uint64_t asked = 0;
  for (; status.ok() && asked < 1'000'000; ++asked) status = feeder.Count({.partition = 3});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kBadInput);
  EXPECT_EQ(feeder.Heard().size(), asked - 1) << "those before it";
  EXPECT_TRUE(feeder.Count({.partition = 3}).ok()) << "it has read now";
  feeder.Go();
}

// Such as those of a stream's intervals, which end no epoch.
TEST(FeedSessionsTest, ManyJobsOfOneEpochTakeNoMoreMemoryThanOne) {
  constexpr std::uint32_t kJobs = 5000;
  auto sessions = FeedSessions::Create(Small());
  ASSERT_TRUE(sessions.ok());
  for (std::uint32_t number = 0; number < kJobs; ++number) {
    SessionOptions here = Partition(0);
    std::memcpy(here.key.job.data(), &number, sizeof number);
    PartitionKey at_another_node = here.key;
    at_another_node.partition = 1;
    Feeder feeder(**sessions, number);
    ASSERT_TRUE(feeder.Count(at_another_node).ok());
    ASSERT_TRUE(feeder.Open(here).ok());
    ASSERT_TRUE(feeder.Bring(0, 2).ok());
    ASSERT_TRUE(feeder.End(2).ok());
    TakeChunk(**sessions).Release();
    EXPECT_THAT(feeder.Heard(), ::testing::Contains(MessageType::kEnded));
    feeder.Go();
    ASSERT_EQ((*sessions)->counters().known_partitions, 2u);
    (*sessions)->EndJob(here.key.job);
    ASSERT_EQ((*sessions)->counters().known_partitions, 0u);
  }
  EXPECT_EQ((*sessions)->counters().train_items, 2u * kJobs);
  EXPECT_EQ((*sessions)->counters().region_bytes_in_use, 0u);
}

TEST(FeedSessionsTest, ThePhaseOfAFeedOnlyGoesOn) {
  auto sessions = FeedSessions::Create(Small());
  ASSERT_TRUE(sessions.ok());
  EXPECT_FALSE((*sessions)->terminated());
  (*sessions)->EndFeed();
  EXPECT_FALSE((*sessions)->terminated());
  (*sessions)->Terminate();
  (*sessions)->EndFeed();
  EXPECT_TRUE((*sessions)->terminated());
  (*sessions)->Fail("the program failed");
  (*sessions)->Terminate();
  Feeder late(**sessions, 1);
  EXPECT_TRUE(late.Open(Partition(0)).ok());
  EXPECT_THAT(late.Heard(), ::testing::ElementsAre(MessageType::kError));
  (*sessions)->Close();
  (*sessions)->Fail("again");
  EXPECT_TRUE((*sessions)->closed());
  Feeder later(**sessions, 2);
  EXPECT_EQ(later.Open(Partition(0)).kind(), ErrorKind::kReconnect);
}

}  // namespace
}  // namespace tfos::feed
