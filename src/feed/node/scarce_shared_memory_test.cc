// Nodes and feeders that share memory, on a host that has none left: an error, no signal.

#include "testing/scarce_shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "feed/node/feed_transport_fixture.h"
#include "feed/wire/region.h"

namespace tfos::feed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Covers: memory exhausted / feeding
TEST_P(FeedTransportTest, AChunkThatNoMemoryIsLeftForFails) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  ASSERT_TRUE(Put(*client, "first").ok());
  // Over TCP, it may still be on its way.
  ASSERT_TRUE(Eventually([&] { return server_->counters().queued_chunks == 1; }));
  {
    const ScarceSharedMemory none(0);
    const Status put = Put(*client, std::string(100'000, 'x'), 1, 1);
    if (!client->shares_memory()) {
      // The node has no memory for what comes, and says so.
      ASSERT_TRUE(put.ok()) << put.ToString();
      const Status ended = client->Finish().status();
      EXPECT_EQ(ended.kind(), ErrorKind::kBadInput) << ended.ToString();
      EXPECT_THAT(ended.ToString(),
                  AllOf(HasSubstr("has too little memory"), HasSubstr("node 3"),
                        HasSubstr("100000 bytes"), HasSubstr("spark.tfos.feed.memory")));
      EXPECT_EQ(TakeText(), "first");
      return;
    }
    EXPECT_EQ(put.kind(), ErrorKind::kNoResources) << put.ToString();
    EXPECT_THAT(put.ToString(), HasSubstr("has too little memory"));
  }
  // Nothing is lost: the next chunk fits once there is memory again.
  ASSERT_TRUE(Put(*client, "second", 1, 1).ok());
  ASSERT_TRUE(client->Finish().ok());
  EXPECT_EQ(TakeText(), "first");
  EXPECT_EQ(TakeText(), "second");
}

TEST_P(FeedTransportTest, ARoundThroughTheRegionTakesNoMoreMemory) {
  StartServer(SmallMemory(1));
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  const std::string quarter(kSmallRegion / 4, 'x');
  for (int chunk = 0; chunk < 4; ++chunk) {
    ASSERT_TRUE(Put(*client, quarter, 1, static_cast<std::uint64_t>(chunk)).ok());
  }
  ASSERT_TRUE(Eventually([&] { return server_->counters().queued_chunks == 4; }));
  const ScarceSharedMemory none(0);
  for (int chunk = 4; chunk < 20; ++chunk) {
    EXPECT_EQ(TakeText(), quarter);
    const Status put = Put(*client, quarter, 1, static_cast<std::uint64_t>(chunk));
    ASSERT_TRUE(put.ok()) << put.ToString();
  }
}

// Nodes use the region of one feeder for the next one, also over TCP.
TEST_P(FeedTransportTest, MemoryThatWasGivenBackIsGotAnewBeforeItIsTouched) {
  StartServer(SmallMemory(1));
  const std::string quarter(kSmallRegion / 4, 'x');
  {
    std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
    for (int chunk = 0; chunk < 2; ++chunk) {
      ASSERT_TRUE(Put(*client, quarter, 1, static_cast<std::uint64_t>(chunk)).ok());
    }
    ASSERT_TRUE(client->Finish().ok());
    for (int chunk = 0; chunk < 2; ++chunk) EXPECT_EQ(TakeText(), quarter);
  }
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain, 1);
  ASSERT_TRUE(Eventually([&] { return server_->counters().open_sessions == 1; }));
  const ScarceSharedMemory little(kSmallRegion / 4);
  Status status;
  for (int chunk = 0; chunk < 4 && status.ok(); ++chunk) {
    status = Put(*client, quarter, 1, static_cast<std::uint64_t>(chunk));
  }
  if (status.ok()) status = client->Finish().status();
  EXPECT_THAT(status.ToString(), HasSubstr("has too little memory"));
}

TEST(RegionTest, ANodeThatHasNoMemoryToGiveSaysSo) {
  const ScarceSharedMemory none(0);
  EXPECT_EQ(Region::Create(kSmallRegion).status().kind(), ErrorKind::kNoResources);
}

}  // namespace
}  // namespace tfos::feed
