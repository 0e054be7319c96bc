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
