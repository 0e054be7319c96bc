#include "control/host/executor_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tfos::control {
namespace {

using ::testing::HasSubstr;

/// A procfs of its own, as far as the walk reads it.
class ExecutorProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/proc_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Add(pid_t pid, const std::string& name, pid_t parent, const std::string& executable = "") {
    const std::filesystem::path folder = root_ / std::to_string(pid);
    std::filesystem::create_directory(folder);
    std::ofstream(folder / "stat") << pid << " (" << name << ") S " << parent << " 1 1 0";
    if (!executable.empty()) std::filesystem::create_symlink(executable, folder / "exe");
  }

  std::filesystem::path root_;
};

TEST_F(ExecutorProcessTest, WorkerUnderDaemonUnderJvm) {
  Add(40, "java", 30);
  Add(41, "python3", 40);
  Add(42, "python3", 41);
  Add(30, "java", 1);  // the Worker, which is not what dies with the executor
  auto jvm = FindExecutorJvm(42, root_);
  ASSERT_TRUE(jvm.ok()) << jvm.status().ToString();
  EXPECT_EQ(*jvm, 40);
}

TEST_F(ExecutorProcessTest, RenamedJvmIsKnownByItsExecutable) {
  Add(40, "Executor (main) ", 1, "/usr/lib/jvm/bin/java");
  Add(42, "python3", 40, "/usr/bin/python3");
  auto jvm = FindExecutorJvm(42, root_);
  ASSERT_TRUE(jvm.ok()) << jvm.status().ToString();
  EXPECT_EQ(*jvm, 40);
}

TEST_F(ExecutorProcessTest, TheJvmMayBeTheFirstProcessOfItsContainer) {
  Add(1, "java", 0);
  Add(42, "python3", 1);
  auto jvm = FindExecutorJvm(42, root_);
  ASSERT_TRUE(jvm.ok()) << jvm.status().ToString();
  EXPECT_EQ(*jvm, 1);
}

TEST_F(ExecutorProcessTest, SaysWhereItLookedInVain) {
  Add(41, "bash", 1);
  Add(42, "python3", 41);
  auto jvm = FindExecutorJvm(42, root_);
  ASSERT_FALSE(jvm.ok());
  EXPECT_EQ(jvm.status().kind(), ErrorKind::kReconnect);
  EXPECT_THAT(jvm.status().ToString(), HasSubstr("python3 (42) <- bash (41)"));
}

TEST_F(ExecutorProcessTest, AGoneProcessIsSaidToBeGone) {
  auto jvm = FindExecutorJvm(42, root_);
  ASSERT_FALSE(jvm.ok());
  EXPECT_THAT(jvm.status().ToString(), HasSubstr("process 42, which has ended"));
}

TEST(RealProcTest, WalksThisProcess) {
  // Whether a JVM runs the tests is open; that the walk comes to an end is not.
  auto jvm = FindExecutorJvm(::getpid());
  if (jvm.ok()) GTEST_SKIP() << "process " << *jvm << " runs these tests in a JVM";
  EXPECT_THAT(jvm.status().ToString(), HasSubstr(std::to_string(::getpid())));
}

}  // namespace
}  // namespace tfos::control
