#include "control/agent/answers/native_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <string>
#include <vector>

namespace tfos::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class NativeCallsTest : public ::testing::Test {
 protected:
  /// The answers of a shell's program, which has the number of the process as $0.
  std::vector<std::string> Run(const std::string& program, int questions = 1) {
    return Run(std::vector<std::string>{"/bin/sh", "-c", program}, questions);
  }
  std::vector<std::string> Run(std::vector<std::string> command, int questions,
                               std::chrono::milliseconds patience = NativeCalls::kPatience) {
    std::vector<std::string> texts;
    NativeCalls calls(
        io_.get_executor(), std::move(command),
        [&](std::string text) { texts.push_back(std::move(text)); }, patience);
    for (int i = 0; i < questions; ++i) calls.Ask(4711);
    io_.restart();
    io_.run();
    EXPECT_EQ(calls.pid(), 0) << "it was reaped";
    return texts;
  }

  boost::asio::io_context io_;
};

TEST_F(NativeCallsTest, ItTellsWhatTheCommandPrints) {
  EXPECT_THAT(Run("echo of $0"), ElementsAre("of 4711\n"));
}

TEST_F(NativeCallsTest, ThoseWhoAskMeanwhileShareTheAnswer) {
  EXPECT_THAT(Run("echo of $0", 3), ElementsAre("of 4711\n"));
}

TEST_F(NativeCallsTest, ACommandThatCrashesHasNoAnswer) {
  EXPECT_THAT(Run("echo half; kill -SEGV $$"),
              ElementsAre("no native calls of threads: the command that finds them was killed by "
                          "SIGSEGV (signal 11)\n"));
}

TEST_F(NativeCallsTest, ACommandThatIsNotThereHasNoAnswer) {
  EXPECT_THAT(Run(std::vector<std::string>{"/nowhere/tfos"}, 1),
              ElementsAre(HasSubstr("No such file")));
  EXPECT_THAT(Run(std::vector<std::string>(), 1), ElementsAre(HasSubstr("no command")));
}

TEST_F(NativeCallsTest, OneThatPrintsWithoutEndIsEnded) {
  EXPECT_THAT(Run("while :; do echo 0123456789012345678901234567890123456789; done"),
              ElementsAre(HasSubstr("was killed by SIGKILL")));
}

TEST_F(NativeCallsTest, OneThatHangsIsEnded) {
  EXPECT_THAT(Run(std::vector<std::string>{"/bin/sleep"}, 1, std::chrono::milliseconds(100)),
              ElementsAre(HasSubstr("not found within 100 ms")));
}

TEST_F(NativeCallsTest, ItCanBeAskedAgainAndStopped) {
  std::vector<std::string> texts;
  NativeCalls calls(io_.get_executor(), {"/bin/sh", "-c", "sleep 600"},
                    [&](std::string text) { texts.push_back(std::move(text)); });
  for (int i = 0; i < 2; ++i) {
    calls.Ask(4711);
    EXPECT_GT(calls.pid(), 0);
    calls.Stop();
    io_.restart();
    io_.run();
  }
  EXPECT_THAT(texts, SizeIs(2));
}

}  // namespace
}  // namespace tfos::control
