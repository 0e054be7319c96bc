#include "cli/doctor/host_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tfos::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

Result<CapturedRun> Printed(std::string output, int code = 0) {
  return CapturedRun{ExitStatus{.signalled = false, .code = code}, std::move(output)};
}

Result<CapturedRun> NotThere() { return Status(ErrorKind::kBadInput, "no such program"); }

TEST(HostChecksTest, ReadsTheFeatureReleaseOfJava) {
  EXPECT_EQ(ParseJavaRelease("openjdk version \"17.0.15\" 2025-04-15\n"), 17);
  EXPECT_EQ(ParseJavaRelease("java version \"1.8.0_392\"\n"), 8);
  EXPECT_EQ(ParseJavaRelease("openjdk version \"21\" 2023-09-19\n"), 21);
  EXPECT_EQ(ParseJavaRelease("Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"21-ea\"\n"),
            21);
  EXPECT_EQ(ParseJavaRelease("java version \"x\"\n"), std::nullopt);
  EXPECT_EQ(ParseJavaRelease("no java here"), std::nullopt);
}

TEST(HostChecksTest, JavaMustBeThereAndNewEnough) {
  EXPECT_EQ(JudgeJava(NotThere()).level, CheckLevel::kFail);
  EXPECT_EQ(JudgeJava(Printed("openjdk version \"17.0.15\"\n")).level, CheckLevel::kOk);
  const Check of_spark_3 = JudgeJava(Printed("openjdk version \"11.0.2\"\n"));
  EXPECT_EQ(of_spark_3.level, CheckLevel::kWarn);
  EXPECT_THAT(of_spark_3.advice,
              EndsWith("Java 17 or newer and put it on PATH or set JAVA_HOME for Spark 4"));
  const Check without_jar = JudgeJava(Printed("openjdk version \"1.8.0_392\"\n"));
  EXPECT_EQ(without_jar.level, CheckLevel::kWarn);
  EXPECT_THAT(without_jar.advice,
              EndsWith("for Spark 4, or Java 11 for the jar of tfos with Spark 3.5"));
  const Check broken = JudgeJava(Printed("Error: could not find libjvm\n", 1));
  EXPECT_EQ(broken.level, CheckLevel::kFail);
  EXPECT_THAT(broken.found, HasSubstr("libjvm"));
  EXPECT_THAT(broken.advice, HasSubstr("JAVA_HOME"));
}

TEST(HostChecksTest, AHostWithoutGpusIsFine) {
  EXPECT_EQ(JudgeGpus(NotThere()).level, CheckLevel::kOk);
  const Check two = JudgeGpus(Printed("GPU 0: H200\nGPU 1: H200\n"));
  EXPECT_EQ(two.level, CheckLevel::kOk);
  EXPECT_EQ(two.found, "2, first: GPU 0: H200");
  EXPECT_EQ(JudgeGpus(Printed("couldn't communicate with the driver\n", 9)).level,
            CheckLevel::kWarn);
}

TEST(HostChecksTest, SaysWhichOpenSslIsBuiltIn) {
  const auto none = [](const auto&) { return std::nullopt; };
  const std::vector<Check> checks = CheckHost(none, [](const auto&) { return NotThere(); });
  const auto found = std::ranges::find(checks, "OpenSSL", &Check::what);
  ASSERT_NE(found, checks.end());
  EXPECT_EQ(found->level, CheckLevel::kOk);
  EXPECT_EQ(found->found.substr(0, 10), "OpenSSL 3.");
}

TEST(HostChecksTest, SmallSharedMemoryIsWarnedOf) {
  EXPECT_EQ(JudgeSharedMemory(std::nullopt).level, CheckLevel::kWarn);
  EXPECT_EQ(JudgeSharedMemory((64u << 20) - 1).level, CheckLevel::kWarn);
  EXPECT_EQ(JudgeSharedMemory(64u << 20).level, CheckLevel::kOk);
}

TEST(HostChecksTest, OnlyAnAddressThatOthersReachIsOk) {
  EXPECT_EQ(JudgeAddress("10.0.0.5").level, CheckLevel::kOk);
  EXPECT_EQ(JudgeAddress("fd00::5").level, CheckLevel::kOk);
  EXPECT_EQ(JudgeAddress("127.0.0.1").level, CheckLevel::kWarn);
  EXPECT_EQ(JudgeAddress("::1").level, CheckLevel::kWarn);
  const Check by_name = JudgeAddress("host-a");
  EXPECT_EQ(by_name.level, CheckLevel::kWarn);
  EXPECT_THAT(by_name.found, HasSubstr("host-a"));
  EXPECT_THAT(by_name.advice, HasSubstr("advertisedAddress"));
}

TEST(HostChecksTest, LooksForJavaInJavaHome) {
  std::vector<std::string> programs;
  const auto checks = CheckHost(
      [](const std::string& name) -> std::optional<std::string> {
        if (name == "JAVA_HOME") return "/opt/jdk";
        return std::nullopt;
      },
      [&programs](const std::vector<std::string>& argv) -> Result<CapturedRun> {
        programs.push_back(argv.front());
        return NotThere();
      });
  EXPECT_THAT(programs, ::testing::ElementsAre("/opt/jdk/bin/java", "nvidia-smi"));
  for (const Check& check : checks) {
    EXPECT_EQ(check.advice.empty(), check.level == CheckLevel::kOk) << check.what;
  }
}

}  // namespace
}  // namespace tfos::cli
