#include "control/host/gpus/gpu_usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tfos::control {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

class GpuUsageTest : public ::testing::Test {
 protected:
  static Status Add(GpuUsageReader& reader, std::string_view bytes) {
    return reader.Add(bytes, Clock::TimePoint());
  }
  static std::optional<GpuUsage> Latest(const GpuUsageReader& reader) {
    return reader.Latest(Clock::TimePoint());
  }

  GpuUsageReader one_{1};
  GpuUsageReader two_{2};
};

TEST_F(GpuUsageTest, AsksForTheGpusOfTheNodeAgainAndAgain) {
  EXPECT_THAT(
      GpuUsageReader::Command({"0", "GPU-5f0c"}),
      ElementsAre("nvidia-smi", "--id=0,GPU-5f0c", "--query-gpu=index,utilization.gpu,memory.used",
                  "--format=csv,noheader,nounits", "--loop=2"));
}

TEST_F(GpuUsageTest, IsTheMeanAndTheSumOfAllGpus) {
  EXPECT_FALSE(Latest(two_).has_value());
  ASSERT_TRUE(Add(two_, "0, 50, 1024\n3, 100, 3072\n").ok());
  EXPECT_THAT(Latest(two_)->utilization, Optional(0.75));
  EXPECT_THAT(Latest(two_)->memory_bytes, Optional(4 * kGiB));
  ASSERT_TRUE(Add(two_, "0, 0, 0\r\n3, 10, 1024\r\n\n").ok());
  EXPECT_THAT(Latest(two_)->utilization, Optional(0.05));
  EXPECT_THAT(Latest(two_)->memory_bytes, Optional(kGiB));
}

TEST_F(GpuUsageTest, HalfAnAnswerChangesNothing) {
  const std::string_view text = "0, 50, 1024\n3, 100, 3072\n";
  for (const char byte : text.substr(0, text.size() - 1)) {
    ASSERT_TRUE(Add(two_, {&byte, 1}).ok());
    EXPECT_FALSE(Latest(two_).has_value());
  }
  ASSERT_TRUE(Add(two_, "\n0, 0, 10").ok());
  EXPECT_THAT(Latest(two_)->utilization, Optional(0.75));
}

TEST_F(GpuUsageTest, WhatAGpuDoesNotTellIsNotMadeUp) {
  ASSERT_TRUE(Add(one_, "0, [N/A], 1024\n").ok());
  EXPECT_FALSE(Latest(one_)->utilization.has_value());
  EXPECT_THAT(Latest(one_)->memory_bytes, Optional(kGiB));
  ASSERT_TRUE(Add(one_, "0, 7, [Not Supported]\n").ok());
  EXPECT_THAT(Latest(one_)->utilization, Optional(0.07));
  EXPECT_FALSE(Latest(one_)->memory_bytes.has_value());
  ASSERT_TRUE(Add(two_, "0, [Unknown Error], 1024\n1, 5, 1024\n").ok());
  EXPECT_FALSE(Latest(two_)->utilization.has_value());
  EXPECT_THAT(Latest(two_)->memory_bytes, Optional(2 * kGiB));
}

TEST_F(GpuUsageTest, AnOldAnswerIsForgotten) {
  ASSERT_TRUE(Add(one_, "0, 50, 1024\n").ok());
  EXPECT_TRUE(one_.Latest(Clock::TimePoint(seconds(9))).has_value());
  EXPECT_FALSE(one_.Latest(Clock::TimePoint(seconds(10))).has_value());
  ASSERT_TRUE(one_.Add("0, 60, 1024\n", Clock::TimePoint(seconds(30))).ok());
  EXPECT_THAT(one_.Latest(Clock::TimePoint(seconds(31)))->utilization, Optional(0.6));
}

TEST_F(GpuUsageTest, WhatNobodyUnderstandsEndsIt) {
  for (const char* line :
       {"No devices were found", "0, 50", "0, 50, 1024, 1", ", 50, 1024", "0, , 1024",
        "0, 50 %, 1024", "0, 101, 1024", "0, -1, 1024", "0, 50, -1", "0, 50, 1024 MiB",
        "0, 50, 99999999999999999999", "0, 50, 4000000000", "0, 5e1, 1", "0, [N/A, 1"}) {
    GpuUsageReader reader(1);
    ASSERT_TRUE(Add(reader, "0, 50, 1024\n").ok());
    const Status broken = Add(reader, std::string(line) + "\n");
    EXPECT_EQ(broken.kind(), ErrorKind::kBadInput) << line;
    EXPECT_THAT(broken.message(), HasSubstr(line));
    EXPECT_FALSE(Latest(reader).has_value()) << line;
    EXPECT_FALSE(Add(reader, "0, 50, 1024\n").ok()) << line;
    EXPECT_FALSE(Latest(reader).has_value()) << line;
  }
}

TEST_F(GpuUsageTest, AGpuThatIsMissingIsNoticed) {
  const Status broken = Add(two_, "0, 50, 1024\n0, 60, 1024\n");
  EXPECT_THAT(broken.message(), HasSubstr("GPU 0 again before it had answered for all 2 GPUs"));
}

TEST_F(GpuUsageTest, ALineWithoutAnEndIsNotKept) {
  EXPECT_FALSE(Add(one_, std::string(2000, ' ')).ok());
}

TEST_F(GpuUsageTest, AnyTextIsReadOrRefused) {
  const std::string text = "0, 50, 1024\n1, [N/A], 3072\n0, 7, 12\n1, 9, 100\n";
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    GpuUsageReader reader(2);
    const Status read = Add(reader, flipped);
    const std::optional<GpuUsage> usage = Latest(reader);
    EXPECT_TRUE(read.ok() || !usage.has_value()) << flipped;
    if (!usage.has_value()) continue;
    const double utilization = usage->utilization.value_or(0);
    EXPECT_TRUE(utilization >= 0 && utilization <= 1) << flipped;
    EXPECT_GE(usage->memory_bytes.value_or(0), 0) << flipped;
  }
}

}  // namespace
}  // namespace tfos::control
