#include "control/link/async_latch.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "control/link/time_limit.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::minutes;

class AsyncLatchTest : public ::testing::Test {
 protected:
  void Wait(Deadline deadline) {
    asio::co_spawn(
        io_,
        [this, deadline]() -> asio::awaitable<void> {
          const bool open = co_await latch_.Wait(deadline);
          ++(open ? opened_ : expired_);
        },
        [](const std::exception_ptr& thrown) { EXPECT_EQ(thrown, nullptr); });
  }

  asio::io_context io_{1};
  AsyncLatch latch_{io_.get_executor()};
  int opened_ = 0;
  int expired_ = 0;
};

TEST_F(AsyncLatchTest, OpeningWakesEveryWaiter) {
  Wait(Deadline::After(minutes(10)));
  Wait(Deadline::After(minutes(5)));
  asio::post(io_, [this] { latch_.Open(); });
  io_.run();
  EXPECT_EQ(opened_, 2);
}

TEST_F(AsyncLatchTest, AWaiterKeepsItsOwnDeadlineAndWakesNobodyElse) {
  Wait(Deadline::After(milliseconds(5)));
  Wait(Deadline::After(minutes(10)));
  while (expired_ == 0) io_.run_one();
  EXPECT_EQ(opened_, 0);
  // Soon nothing is ready: waiters that woke each other would keep the executor busy for ever.
  for (int i = 0; i < 100 && io_.poll_one() > 0; ++i) {
  }
  EXPECT_EQ(io_.poll_one(), 0u);
  latch_.Open();
  io_.run();
  EXPECT_EQ(opened_, 1);
}

TEST_F(AsyncLatchTest, ClosedAgainItIsWaitedForAgain) {
  latch_.Open();
  latch_.Reset();
  Wait(Deadline::After(milliseconds(1)));
  io_.run();
  EXPECT_EQ(expired_, 1);
}

class TimeLimitTest : public ::testing::Test {
 protected:
  asio::io_context io_{1};
  TimeLimit limit_{io_.get_executor()};
  int late_ = 0;
};

TEST_F(TimeLimitTest, CallsOnceTheTimeIsOver) {
  limit_.Set(minutes(5), [this] { late_ += 10; });
  limit_.Set(milliseconds(1), [this] { ++late_; });
  io_.run();
  EXPECT_EQ(late_, 1);
}

TEST_F(TimeLimitTest, WhatComesInTheRoundInWhichItEndsIsInTime) {
  limit_.Set(milliseconds(0), [this] { ++late_; });
  // Over before the limit, so that its handler comes first; that of the limit is queued behind it.
  asio::steady_timer word(io_, asio::steady_timer::time_point());
  word.async_wait([this](const auto&) { limit_.Lift(); });
  io_.run();
  EXPECT_EQ(late_, 0);
}

TEST_F(TimeLimitTest, NothingIsCalledOnceItIsGone) {
  {
    TimeLimit gone(io_.get_executor());
    gone.Set(milliseconds(0), [this] { ++late_; });
  }
  io_.run();
  EXPECT_EQ(late_, 0);
}

}  // namespace
}  // namespace tfos::control
