#include "control/link/spawn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <new>
#include <optional>

namespace tfos::control {
namespace {

namespace asio = boost::asio;

asio::awaitable<void> RunOutOfMemory() {
  throw std::bad_alloc();
  co_return;
}

asio::awaitable<void> ThrowSomethingElse() {
  throw 7;
  co_return;
}

asio::awaitable<void> Set(bool& done) {
  done = true;
  co_return;
}

class SpawnTest : public ::testing::Test {
 protected:
  std::optional<Status> FailureOf(asio::awaitable<void> coroutine) {
    std::optional<Status> failure;
    Spawn(io_.get_executor(), "count the nodes", std::move(coroutine),
          [&failure](const Status& status) { failure = status; });
    io_.run();
    return failure;
  }

  asio::io_context io_;
};

TEST_F(SpawnTest, TellsWhatACoroutineDiedOf) {
  const std::optional<Status> failure = FailureOf(RunOutOfMemory());
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind(), ErrorKind::kBug);
  EXPECT_EQ(failure->message(), "failed to count the nodes: std::bad_alloc");
}

TEST_F(SpawnTest, TakesExceptionsOfAnyType) {
  const std::optional<Status> failure = FailureOf(ThrowSomethingElse());
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->message(), "failed to count the nodes: an unknown exception");
}

TEST_F(SpawnTest, ACoroutineThatReturnsIsNoFailure) {
  bool done = false;
  EXPECT_FALSE(FailureOf(Set(done)).has_value());
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace tfos::control
