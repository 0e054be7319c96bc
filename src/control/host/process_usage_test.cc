#include "control/host/process_usage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tfos::control {
namespace {

TEST(ProcessUsageTest, CountsThisProcess) {
  constexpr std::size_t kBytes = 64u << 20;
  const auto before = ReadProcessUsage(::getpid());
  ASSERT_TRUE(before.has_value());
  const std::vector<char> touched(kBytes, 1);
  // Until the kernel, which counts in ticks, must have seen some.
  timespec used{};
  do {
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  } while (used.tv_sec == 0 && used.tv_nsec < 200'000'000);
  const auto after = ReadProcessUsage(::getpid());
  ASSERT_TRUE(after.has_value());
  EXPECT_GT(after->cpu_seconds, 0.05);
  EXPECT_GE(after->cpu_seconds, before->cpu_seconds);
  EXPECT_GT(after->rss_bytes, before->rss_bytes + static_cast<std::int64_t>(kBytes / 2));
  EXPECT_EQ(touched.back(), 1);
}

TEST(ProcessUsageTest, ANameMayLookLikeFields) {
  const auto root = std::filesystem::temp_directory_path() / ("usage" + std::to_string(::getpid()));
  std::filesystem::create_directories(root / "7");
  std::ofstream(root / "7/stat") << "7 (a) 9 (b) S 1 7 7 0 -1 4194304 1 2 3 4 500 250 0 0 20 0 8 0 "
                                    "9 1000000 25 18446744073709551615";
  const auto usage = ReadProcessUsage(7, root);
  std::ofstream(root / "7/stat") << "7 (cut";
  const auto cut = ReadProcessUsage(7, root);
  std::filesystem::remove_all(root);
  ASSERT_TRUE(usage.has_value());
  EXPECT_DOUBLE_EQ(usage->cpu_seconds, 750.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(usage->rss_bytes, 25 * ::sysconf(_SC_PAGESIZE));
  EXPECT_FALSE(cut.has_value());
}

TEST(ProcessUsageTest, AProcessThatIsGoneUsesNothing) {
  EXPECT_FALSE(ReadProcessUsage(1 << 30).has_value());
}

}  // namespace
}  // namespace tfos::control
