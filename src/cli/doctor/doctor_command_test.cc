#include "cli/doctor/doctor_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testing/temporary_folder.h"

namespace tfos::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::optional<std::string> NothingSet(const std::string&) { return std::nullopt; }

CommandRunner Prints(std::string output, int code) {
  return [=](const std::vector<std::string>&) -> Result<CapturedRun> {
    return CapturedRun{ExitStatus{.signalled = false, .code = code}, output};
  };
}

TEST(DoctorCommandTest, TheConfiguredPythonWins) {
  const auto environment = [](const std::string& name) -> std::optional<std::string> {
    return name == "PYSPARK_PYTHON" ? std::optional<std::string>("/opt/py/bin/python3.12")
                                    : std::nullopt;
  };
  EXPECT_EQ(FindPython(environment, "/usr/bin/tfos"), "/opt/py/bin/python3.12");
}

TEST(DoctorCommandTest, FindsThePythonOfTheEnvironmentThatTheExecutableIsIn) {
  const tfos::testing::TemporaryFolder folder;
  const std::filesystem::path& root = folder.path();
  const auto package = root / "lib" / "python3.11" / "site-packages" / "tfos" / "bin";
  std::filesystem::create_directories(package);
  std::filesystem::create_directories(root / "bin");
  std::ofstream(root / "bin" / "python3") << "";
  EXPECT_EQ(FindPython(NothingSet, package / "tfos"), (root / "bin" / "python3").string());
}

TEST(DoctorCommandTest, FallsBackToPath) {
  EXPECT_EQ(FindPython(NothingSet, "/tfos"), "python3");
  EXPECT_EQ(FindPython(NothingSet, ""), "python3");
}

TEST(DoctorCommandTest, TakesThePythonReportFromTheLastLine) {
  const auto checks = CheckPython(
      "python3", Prints("a warning of the interpreter\n"
                        R"([{"level":"fail","what":"numpy","found":"not installed","advice":"x"}])"
                        "\n",
                        1));
  EXPECT_THAT(checks, ElementsAre(Check{CheckLevel::kFail, "numpy", "not installed", "x"}));
}

TEST(DoctorCommandTest, APythonWithoutTfosIsOneFailedCheck) {
  const auto checks =
      CheckPython("/opt/python3", Prints("/opt/python3: No module named tfos\n", 1));
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].level, CheckLevel::kFail);
  EXPECT_THAT(checks[0].found, HasSubstr("exited with code 1: /opt/python3: No module named tfos"));
  EXPECT_THAT(checks[0].advice, HasSubstr("PYSPARK_PYTHON"));
}

TEST(DoctorCommandTest, NoPythonAtAllIsOneFailedCheck) {
  const auto checks = CheckPython("python3", [](const auto&) -> Result<CapturedRun> {
    return Status(ErrorKind::kBadInput, "python3 is not on PATH");
  });
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].found, "python3 is not on PATH");
}

TEST(DoctorCommandTest, WithoutAProcessToSpareNoPackageIsMissing) {
  const auto none = [](const auto&) -> Result<CapturedRun> {
    return Status(ErrorKind::kNoResources, "fork for python3: Resource temporarily unavailable");
  };
  const auto checks = CheckPython("python3", none);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].level, CheckLevel::kFail);
  EXPECT_THAT(checks[0].found, HasSubstr("fork for python3"));
  EXPECT_THAT(checks[0].advice, HasSubstr("pids.max"));
}

TEST(DoctorCommandTest, AReportThatDoesNotComeIsNoMissingPackage) {
  const auto late = [](const auto&) -> Result<CapturedRun> {
    return Status(ErrorKind::kRetryLater, "python3 has not ended in time");
  };
  const auto checks = CheckPython("python3", late, {"--hdfs", "hdfs://namenode/x"});
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].level, CheckLevel::kFail);
  EXPECT_THAT(checks[0].found, HasSubstr("has not ended in time"));
  EXPECT_EQ(checks[0].advice,
            "run `python3 -m tfos.cli.doctor --hdfs hdfs://namenode/x` to see what holds it");
}

}  // namespace
}  // namespace tfos::cli
