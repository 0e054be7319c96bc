#include "control/agent/answers/thread_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <future>
#include <limits>
#include <string>
#include <thread>

#include "base/format.h"

namespace tfos::control {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const std::string kStat =
    "12 (a) name) S 1 12 12 0 -1 4194560 1 2 3 4 250 50 7 8 20 0 1 0 99 1000 10 "
    "18446744073709551615";

TEST(ThreadStatesTest, ReadsWhatTheKernelSays) {
  const ThreadState state = ParseThreadState(kStat);
  EXPECT_EQ(state.name, "a) name");
  EXPECT_EQ(state.state, 'S');
  EXPECT_DOUBLE_EQ(state.cpu_seconds, 300.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

TEST(ThreadStatesTest, AnyTextIsRead) {
  for (std::size_t bit = 0; bit < kStat.size() * 8; ++bit) {
    std::string flipped = kStat;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_GE(ParseThreadState(flipped).cpu_seconds, 0);
    EXPECT_LE(ParseThreadState(kStat.substr(0, bit / 8)).name.size(), 7u);
  }
  EXPECT_EQ(ParseThreadState(")(").state, '?');
}

TEST(ThreadStatesTest, SaysWhatAThreadWaitsIn) {
  std::promise<pid_t> number;
  std::promise<void> end;
  std::thread waits([&number, ended = end.get_future()] {
    ::pthread_setname_np(::pthread_self(), "it-waits");
    number.set_value(::gettid());
    ended.wait();
  });
  const pid_t thread = number.get_future().get();
  std::string text;
  // It may not wait yet.
  do {
    text = DescribeThreads(::getpid());
  } while (text.find(fmt::format("{}  it-waits         sleeps", thread)) == std::string::npos);
  end.set_value();
  waits.join();
  EXPECT_THAT(text, ContainsRegex("it-waits +sleeps.*, [0-9.]+ s of CPU\n"));
  EXPECT_THAT(text, HasSubstr(" runs"));
}

TEST(ThreadStatesTest, AProcessThatIsNotThereIsNamed) {
  EXPECT_EQ(DescribeThreads(std::numeric_limits<pid_t>::max()), "there is no process 2147483647\n");
}

}  // namespace
}  // namespace tfos::control
