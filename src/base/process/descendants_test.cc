#include "base/process/descendants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "base/process/pidfd.h"
#include "base/process/subprocess.h"
#include "base/process/unique_fd.h"

namespace tfos {
namespace {

using ::testing::Contains;
using ::testing::Not;

constexpr std::chrono::seconds kLong(30);

/// What a command that runs in a session of its own, and whose parent has ended, is to this
/// process.
class DescendantsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(AdoptOrphans().ok()); }

  /// Runs a command in a session of its own, whose parent has ended.
  static pid_t Orphan(const std::string& command) {
    // The shell goes on once the command has left its group, and closed the output.
    const std::string left = "setsid sh -c 'echo $$; exec >/dev/null 2>&1; " + command + "'";
    auto run = RunAndCapture({.argv = {"/bin/sh", "-c", "pid=$(" + left + " &); echo $pid"}},
                             Deadline::After(kLong));
    EXPECT_TRUE(run.ok());
    return static_cast<pid_t>(std::stoi(run->output));
  }
};

TEST_F(DescendantsTest, AnOrphanIsAdoptedAndEnds) {
  const pid_t orphan = Orphan("exec sleep 600");
  EXPECT_THAT(Descendants(), Contains(orphan));
  EXPECT_EQ(EndChildren({}, Deadline::After(kLong)), 0U);
  EXPECT_NE(::kill(orphan, 0), 0) << "it was not reaped";
}

TEST_F(DescendantsTest, WhatBecomesAChildMeanwhileEndsToo) {
  const pid_t orphan = Orphan("sleep 600; true");
  const auto starts = [&] { return Descendants().size() == 2; };
  const Deadline deadline = Deadline::After(kLong);
  while (!starts() && !deadline.passed()) {
  }
  EXPECT_EQ(EndChildren({}, Deadline::After(kLong)), 0U);
  EXPECT_THAT(Descendants(), Not(Contains(orphan)));
  EXPECT_TRUE(Descendants().empty());
}

TEST_F(DescendantsTest, WhatIsKeptLivesOn) {
  const pid_t kept = Orphan("exec sleep 600");
  const pid_t other = Orphan("exec sleep 600");
  const pid_t keep[] = {kept};
  EXPECT_EQ(EndChildren(keep, Deadline::After(kLong)), 0U);
  EXPECT_EQ(::kill(kept, 0), 0);
  EXPECT_NE(::kill(other, 0), 0);
  EXPECT_EQ(EndChildren({}, Deadline::After(kLong)), 0U);
}

TEST_F(DescendantsTest, AnOrphanThatEndsIsReaped) {
  const pid_t orphan = Orphan("true");
  // Reaped already, it can't be watched.
  if (auto pidfd = OpenPidfd(orphan); pidfd.ok()) WaitForEnd(*pidfd, Deadline::After(kLong));
  ReapOrphans({});
  EXPECT_NE(::kill(orphan, 0), 0);
}

TEST_F(DescendantsTest, AnEndThatSomebodyWaitsForIsTheirs) {
  auto process = Subprocess::Start({.argv = {"/bin/true"}});
  ASSERT_TRUE(process.ok());
  const pid_t keep[] = {(*process)->pid()};
  WaitForEnd(*OpenPidfd(keep[0]), Deadline::After(kLong));
  ReapOrphans(keep);
  EXPECT_TRUE((*process)->Wait(Deadline::After(kLong))->success());
}

}  // namespace
}  // namespace tfos
