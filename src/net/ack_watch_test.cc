#include "net/ack_watch.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>

#include "base/process/unique_fd.h"
#include "net/listen.h"
#include "net/socket.h"
#include "testing/send_all.h"

namespace tfos::net {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class AckWatchTest : public ::testing::Test {
 protected:
  bool IsCutAfter(seconds time, const TcpProgress& progress) {
    clock_.Advance(time);
    return watch_.IsCut(progress, clock_.Now());
  }

  ManualClock clock_;
  AckWatch watch_{seconds(30)};
};

TEST_F(AckWatchTest, WhereNothingIsOnItsWayNothingIsMissing) {
  const TcpProgress idle{.acknowledged_bytes = 5, .since_last = hours(1)};
  EXPECT_FALSE(IsCutAfter(seconds(1), idle));
  EXPECT_FALSE(IsCutAfter(hours(1), idle));
}

TEST_F(AckWatchTest, WhatIsNotAcknowledgedForSoLongIsCut) {
  TcpProgress sent{.awaits_acknowledgement = true, .acknowledged_bytes = 5};
  sent.since_last = hours(1);  // It was idle before.
  EXPECT_FALSE(IsCutAfter(seconds(1), sent));
  EXPECT_FALSE(IsCutAfter(seconds(29), sent));
  EXPECT_TRUE(IsCutAfter(seconds(1), sent));
}

TEST_F(AckWatchTest, BytesThatAreAcknowledgedBeginAnew) {
  TcpProgress sent{.awaits_acknowledgement = true, .since_last = hours(1)};
  for (int i = 0; i < 10; ++i) {
    ++sent.acknowledged_bytes;
    EXPECT_FALSE(IsCutAfter(seconds(20), sent));
  }
  EXPECT_FALSE(IsCutAfter(seconds(20), sent));
  EXPECT_TRUE(IsCutAfter(seconds(10), sent));
}

TEST_F(AckWatchTest, APeerThatAnswersWithoutRoomIsThere) {
  const TcpProgress asks{
      .awaits_acknowledgement = true, .acknowledged_bytes = 5, .since_last = seconds(3)};
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(IsCutAfter(seconds(20), asks));
}

TEST_F(AckWatchTest, AfterAPauseItBeginsAnew) {
  const TcpProgress sent{.awaits_acknowledgement = true, .since_last = hours(1)};
  EXPECT_FALSE(IsCutAfter(seconds(1), sent));
  EXPECT_FALSE(IsCutAfter(seconds(20), {}));
  EXPECT_FALSE(IsCutAfter(seconds(20), sent));
}

TEST_F(AckWatchTest, TheKernelCountsWhatIsAcknowledged) {
  const auto listening = ListenTcp("127.0.0.1", 0, 0);
  ASSERT_TRUE(listening.ok());
  const auto socket = ConnectTcp("127.0.0.1", listening->port, {});
  ASSERT_TRUE(socket.ok());
  ASSERT_TRUE(ProgressOf(socket->get()));
  const auto before = ProgressOf(socket->get())->acknowledged_bytes;
  const std::array<std::byte, 10> bytes{};
  ASSERT_TRUE(tfos::testing::SendAll(socket->get(), bytes, {}).ok());
  // The peer's kernel does, whether somebody reads or not.
  while (ProgressOf(socket->get())->acknowledged_bytes < before + bytes.size()) ::sched_yield();
  EXPECT_TRUE(CheckAcknowledged(watch_, socket->get()).ok());

  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const UniqueFd one(pair[0]);
  const UniqueFd other(pair[1]);
  EXPECT_FALSE(ProgressOf(one.get())) << "another kind of socket";
  EXPECT_TRUE(CheckAcknowledged(watch_, one.get()).ok());
}

}  // namespace
}  // namespace tfos::net
