#include "base/logging.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tfos {
namespace {

TEST(LoggingTest, WritesOneLineWithLevelAndName) {
  EXPECT_EXIT(
      {
        SetUpLogging("node 3 at 100%", "INFO");
        LogWarning("{} rows", 7);
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "T[0-9:]{8}[.][0-9]{6}[+-][0-9]{2}:[0-9]{2} WARN tfos node 3 at 100%: 7 rows\n");
}

// What others say may be in it.
TEST(LoggingTest, NoLineOfATextLooksLikeOneOfTheLog) {
  EXPECT_EXIT(
      {
        SetUpLogging("node 3", "INFO");
        LogInfo("it says: {}", "\x1b[2Ja\n2026-11-21T10:00:00.123456+01:00 INFO tfos node 4: b");
        std::exit(0);
      },
      testing::ExitedWithCode(0), "it says:  \\[2Ja\n    2026-11-21T10:00:00");
}

TEST(LoggingTest, LeavesOutWhatIsBelowItsLevel) {
  SetUpLogging("test", "warn");
  EXPECT_FALSE(IsLogged(LogLevel::kInfo));
  EXPECT_TRUE(IsLogged(LogLevel::kWarning));
  SetUpLogging("test", "no such level");
  EXPECT_TRUE(IsLogged(LogLevel::kInfo));
}

// As a thread does that reads for a dataset that is gone.
TEST(LoggingTest, WritesWhileTheProcessEnds) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        // Runs after all that was made later has been destroyed.
        std::atexit([] {
          LogWarning("a late line");
          std::_Exit(3);
        });
        SetUpLogging("test", "INFO");
        LogInfo("a line in time");
        std::exit(0);
      },
      testing::ExitedWithCode(3), "a late line");
}

}  // namespace
}  // namespace tfos
