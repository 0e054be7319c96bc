#include "control/agent/child/supervised_child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <optional>

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

class SupervisedChildTest : public ::testing::Test {
 protected:
  void Start(milliseconds kill_patience = SupervisedChild::kKillPatience) {
    log_.emplace(io_.get_executor(), UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)));
    auto child = SupervisedChild::Start(
        io_.get_executor(), {.argv = {"/bin/sleep", "600"}}, *log_,
        [this](ExitStatus exit) {
          EXPECT_FALSE(end_.has_value()) << "it is told once";
          end_ = exit;
        },
        kill_patience);
    ASSERT_TRUE(child.ok()) << child.status().ToString();
    child_ = std::move(*child);
  }

  asio::io_context io_;
  std::optional<ExecutorLog> log_;
  std::optional<ExitStatus> end_;
  std::unique_ptr<SupervisedChild> child_;
};

TEST_F(SupervisedChildTest, AChildThatIsKilledHasEnded) {
  Start();
  child_->Stop(milliseconds(0));
  io_.run();
  ASSERT_TRUE(end_.has_value());
  EXPECT_EQ(end_->code, SIGKILL);
  EXPECT_FALSE(end_->left_behind);
  EXPECT_TRUE(child_->ended());
}

// Covers: node frozen / shutdown
TEST_F(SupervisedChildTest, AChildThatCannotBeKilledIsLeftBehind) {
  Start(milliseconds(100));
  // Its tracer holds it up in the middle of its end, where no signal reaches it, as a device does
  // that never answers.
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, child_->pid(), nullptr, PTRACE_O_TRACEEXIT), 0);
  child_->Stop(milliseconds(0));
  while (!end_.has_value()) io_.run_one();
  EXPECT_TRUE(end_->left_behind);
  EXPECT_FALSE(child_->ended());
  // Once it ends after all, nothing more is told.
  ASSERT_EQ(::waitpid(child_->pid(), nullptr, __WALL), child_->pid());
  ASSERT_EQ(::ptrace(PTRACE_DETACH, child_->pid(), nullptr, 0), 0);
  io_.run();
  EXPECT_TRUE(child_->ended());
}

}  // namespace
}  // namespace tfos::control
