#include "control/host/captured_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using testing::HasSubstr;

class CapturedRunTest : public ::testing::Test {
 protected:
  std::optional<Result<CapturedRun>> Run(SubprocessOptions command,
                                         Deadline deadline = Deadline::Infinite(),
                                         std::size_t max_output_bytes = 1 << 20) {
    std::optional<Result<CapturedRun>> result;
    asio::co_spawn(
        io_,
        Store(RunCaptured(io_.get_executor(), std::move(command), deadline, max_output_bytes),
              result),
        [](const std::exception_ptr& thrown) { EXPECT_EQ(thrown, nullptr); });
    io_.run();
    return result;
  }

  static asio::awaitable<void> Store(asio::awaitable<Result<CapturedRun>> run,
                                     std::optional<Result<CapturedRun>>& result) {
    result = co_await std::move(run);
  }

  asio::io_context io_;
};

TEST_F(CapturedRunTest, TakesOutputAndExitCode) {
  const auto run = Run({.argv = {"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}});
  ASSERT_TRUE(run.has_value() && run->ok()) << run->status().ToString();
  EXPECT_EQ((*run)->output, "out\nerr\n");
  EXPECT_EQ((*run)->exit.code, 3);
}

TEST_F(CapturedRunTest, TheExecutorServesOthersMeanwhile) {
  // The command ends only once something else has run on the same thread.
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe(ends.data()), 0);
  asio::post(io_, [&ends] { ::close(ends[1]); });
  const std::string fd = std::to_string(ends[0]);
  const auto result =
      Run({.argv = {"/bin/sh", "-c", "cat <&" + fd + "; echo done"}, .keep_fds = {ends[0]}});
  ::close(ends[0]);
  ASSERT_TRUE(result.has_value() && result->ok());
  EXPECT_EQ((*result)->output, "done\n");
}

TEST_F(CapturedRunTest, ACommandThatDoesNotEndIsKilledAtTheDeadline) {
  const auto run =
      Run({.argv = {"/bin/cat", "/dev/zero"}}, Deadline::After({}), std::size_t{1} << 40);
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->status().kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(run->status().ToString(), HasSubstr("/bin/cat has not ended in time"));
}

TEST_F(CapturedRunTest, OutputIsBounded) {
  const auto run = Run({.argv = {"/bin/cat", "/dev/zero"}}, Deadline::Infinite(), 10'000);
  ASSERT_TRUE(run.has_value());
  EXPECT_THAT(run->status().ToString(), HasSubstr("wrote more than 10000 bytes"));
}

TEST_F(CapturedRunTest, AProgramThatIsNotThereIsTold) {
  const auto run = Run({.argv = {"/no/such/program"}});
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->status().code().value(), ENOENT);
}

}  // namespace
}  // namespace tfos::control
