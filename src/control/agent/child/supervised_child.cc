#include "control/agent/child/supervised_child.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "control/link/spawn.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
/// A line without an end is passed on from here: a progress bar may never end one.
constexpr std::size_t kMaxUnfinishedLineBytes = 16 * 1024;
/// How long the output may stay open once all of the group is dead; somebody who left the group may
/// hold it for ever.
constexpr std::chrono::seconds kOutputPatience(1);
constexpr int kMostRounds = 16;  // of reading what a child has written

}  // namespace

SupervisedChild::SupervisedChild(const asio::any_io_executor& executor,
                                 std::unique_ptr<Subprocess> process, ExecutorLog& log,
                                 OnEnd on_end, std::chrono::milliseconds kill_patience)
    : executor_(executor),
      process_(std::move(process)),
      log_(log),
      on_end_(std::move(on_end)),
      kill_patience_(kill_patience),
      output_(executor, process_->output().Release()),
      ended_(executor),
      output_read_(executor),
      expect_timer_(executor),
      kill_timer_(executor, asio::steady_timer::time_point::max()),
      left_timer_(executor) {}

Result<std::unique_ptr<SupervisedChild>> SupervisedChild::Start(
    const asio::any_io_executor& executor, SubprocessOptions options, ExecutorLog& log,
    OnEnd on_end, std::chrono::milliseconds kill_patience) {
  options.capture_output = true;
  options.die_with_parent = true;
  TFOS_ASSIGN_OR_RETURN(std::unique_ptr<Subprocess> process, Subprocess::Start(options));
  const int ended = ::fcntl(process->pidfd(), F_DUPFD_CLOEXEC, 0);
  if (ended < 0) return Status::FromErrno(errno, "watch " + options.argv.front());
  std::unique_ptr<SupervisedChild> child(
      new SupervisedChild(executor, std::move(process), log, std::move(on_end), kill_patience));
  child->ended_.assign(ended);
  SupervisedChild* const self = child.get();
  Spawn(executor, "read a child's output", child->PumpOutput(),
        [self](const Status&) { self->output_read_.Open(); });
  Spawn(executor, "watch a child", child->AwaitEnd(), [self](const Status&) {
    // Nobody would see its end: it must not outlive its supervision.
    const Result<ExitStatus> exit = self->process_->Stop(Deadline::After({}));
    self->End(exit.ok() ? *exit : ExitStatus{.signalled = true, .code = SIGKILL});
  });
  return child;
}

void SupervisedChild::Stop(std::chrono::milliseconds grace) {
  if (ended()) return;
  const auto moment = asio::steady_timer::clock_type::now() + grace;
  if (stopping_ && kill_timer_.expiry() <= moment) return;
  if (!stopping_ && grace.count() > 0) process_->SignalGroup(SIGTERM);
  stopping_ = true;
  KillAt(moment);
}

void SupervisedChild::ExpectEnd(std::chrono::milliseconds patience,
                                std::chrono::milliseconds grace) {
  if (ended()) return;
  expect_timer_.expires_after(patience);
  expect_timer_.async_wait([this, grace](const boost::system::error_code& cancelled) {
    if (!cancelled) Stop(grace);
  });
}

void SupervisedChild::KillAt(asio::steady_timer::time_point moment) {
  if (moment <= asio::steady_timer::clock_type::now()) {
    Kill();
    return;
  }
  kill_timer_.expires_at(moment);
  kill_timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) Kill();
  });
}

void SupervisedChild::Kill() {
  process_->SignalGroup(SIGKILL);
  if (std::exchange(killed_, true)) return;
  left_timer_.expires_after(kill_patience_);
  left_timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled && !ended()) {
      End({.signalled = true, .code = SIGKILL, .left_behind = true});
    }
  });
}

void SupervisedChild::End(ExitStatus exit) {
  if (OnEnd on_end = std::exchange(on_end_, {})) on_end(exit);
}

asio::awaitable<void> SupervisedChild::AwaitEnd() {
  std::optional<ExitStatus> exit;
  while (!exit.has_value()) {
    co_await ended_.async_wait(asio::posix::stream_descriptor::wait_read, kNoThrow);
    exit = process_->TryReap();
  }
  expect_timer_.cancel();
  kill_timer_.cancel();
  left_timer_.cancel();
  ended_.close();
  // Named: GCC 12 takes a condition that awaits for unreachable.
  const bool all_read = co_await output_read_.Wait(Deadline::After(kOutputPatience));
  // The log's reader may be slow, and the child's last words say why it has ended.
  if (!all_read) TakeWritten();
  End(*exit);
}

asio::awaitable<void> SupervisedChild::PumpOutput() {
  std::array<char, 65536> buffer;
  while (true) {
    auto [error, got] = co_await output_.async_read_some(asio::buffer(buffer), kNoThrow);
    if (error) break;
    const std::string lines = Take({buffer.data(), got});
    co_await log_.Write(lines);
  }
  if (!unfinished_.empty()) {
    const std::string lines = Take("\n");
    co_await log_.Write(lines);
  }
  output_read_.Open();
}

void SupervisedChild::TakeWritten() {
  // PumpOutput goes on where this ends. Bounded, as the child may go on writing.
  std::array<char, 65536> buffer;
  for (int round = 0; round < kMostRounds && output_.is_open(); ++round) {
    const ssize_t got = ::read(output_.native_handle(), buffer.data(), buffer.size());
    if (got <= 0) return;
    log_.Queue(Take({buffer.data(), static_cast<std::size_t>(got)}));
  }
}

std::string SupervisedChild::Take(std::string_view bytes) {
  unfinished_ += bytes;
  std::size_t whole = unfinished_.rfind('\n') + 1;  // npos + 1 is 0
  if (unfinished_.size() - whole > kMaxUnfinishedLineBytes) whole = unfinished_.size();
  if (whole == 0) return {};
  std::string lines = unfinished_.substr(0, whole);
  unfinished_.erase(0, whole);
  written_.Add(lines);
  if (on_output_) on_output_();
  return lines;
}

}  // namespace tfos::control
