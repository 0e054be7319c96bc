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

using ::testing::HasSubstr;

// Covers: memory exhausted / feeding
TEST_P(FeedTransportTest, AChunkThatNoMemoryIsLeftForFails) {
  StartServer();
  std::unique_ptr<FeedClient> client = Open(Mode::kTrain);
  ASSERT_TRUE(Put(*client, "first").ok());
  {
    const ScarceSharedMemory none(0);
    const Status put = Put(*client, std::string(100'000, 'x'), 1, 1);
    if (!client->shares_memory()) {
      EXPECT_TRUE(put.ok()) << put.ToString();
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
  const ScarceSharedMemory none(0);
  for (int chunk = 4; chunk < 20; ++chunk) {
    EXPECT_EQ(TakeText(), quarter);
    const Status put = Put(*client, quarter, 1, static_cast<std::uint64_t>(chunk));
    ASSERT_TRUE(put.ok()) << put.ToString();
  }
}

TEST(RegionTest, ANodeThatHasNoMemoryToGiveSaysSo) {
  const ScarceSharedMemory none(0);
  EXPECT_EQ(Region::Create(kSmallRegion).status().kind(), ErrorKind::kNoResources);
}

}  // namespace
}  // namespace tfos::feed
