#include "control/host/clusters/cluster_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tfos::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ClusterRecord Example() {
  return {.cluster_id = "0123456789abcdef",
          .name = "my app",
          .endpoint = {.address = "10.0.0.5", .port = 41234},
          .encrypt = "true",
          .key = *Secret::FromHex(std::string(64, 'a')),
          .driver_pid = 12,
          .started_ms = 1'764'000'000'000};
}

TEST(ClusterRecordTest, IsReadAsItWasWritten) {
  const ClusterRecord record = Example();
  const auto read = ClusterRecord::Parse(record.Serialize());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->cluster_id, record.cluster_id);
  EXPECT_EQ(read->name, record.name);
  EXPECT_EQ(read->endpoint, record.endpoint);
  EXPECT_EQ(read->encrypt, record.encrypt);
  EXPECT_EQ(read->key.ToHex(), record.key.ToHex());
  EXPECT_EQ(read->driver_pid, record.driver_pid);
  EXPECT_EQ(read->started_ms, record.started_ms);
}

TEST(ClusterRecordTest, FlippedBitsNeverCrashAndTheKeyIsNeverSaid) {
  const std::string text = Example().Serialize();
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto read = ClusterRecord::Parse(flipped);
    if (!read.ok()) {
      EXPECT_THAT(read.status().ToString(), Not(HasSubstr("aaaaaaaa")));
    }
  }
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(ClusterRecord::Parse(std::string_view(text).substr(0, length)).ok());
  }
}

TEST(ClusterRecordTest, NamesWhatIsWrong) {
  ClusterRecord record = Example();
  record.encrypt = "maybe";
  EXPECT_THAT(ClusterRecord::Parse(record.Serialize()).status().ToString(), HasSubstr("maybe"));
  record = Example();
  record.endpoint.port = 0;
  EXPECT_THAT(ClusterRecord::Parse(record.Serialize()).status().ToString(), HasSubstr("'port'"));
  record = Example();
  record.name = std::string(ClusterRecord::kMostBytes, 'x');
  EXPECT_FALSE(ClusterRecord::Parse(record.Serialize()).ok());
}

}  // namespace
}  // namespace tfos::control
