#include "control/host/captured_run.h"

#include <fcntl.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/format.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

// What the coroutine waits for. The timer's handler may run after the coroutine has ended, so that
// both hold it.
struct Waits {
  Waits(const asio::any_io_executor& executor, int output_fd, int ended_fd)
      : output(executor, output_fd), ended(executor, ended_fd) {}

  void Expire() {
    expired = true;
    output.cancel();
    ended.cancel();
  }

  asio::posix::stream_descriptor output;
  asio::posix::stream_descriptor ended;
  bool expired = false;
};

}  // namespace

asio::awaitable<Result<CapturedRun>> RunCaptured(asio::any_io_executor executor,
                                                 SubprocessOptions options, Deadline deadline,
                                                 std::size_t max_output_bytes) {
  const std::string name = options.argv.front();
  options.capture_output = true;
  Result<std::unique_ptr<Subprocess>> started = Subprocess::Start(options);
  if (!started.ok()) co_return started.status();
  const std::unique_ptr<Subprocess> process = std::move(started).value();

  const int ended = ::fcntl(process->pidfd(), F_DUPFD_CLOEXEC, 0);
  if (ended < 0) co_return Status::FromErrno(errno, "watch " + name);
  const auto waits = std::make_shared<Waits>(executor, process->output().Release(), ended);
  asio::steady_timer limit(executor, deadline.at());
  limit.async_wait([waits](const boost::system::error_code& cancelled) {
    if (!cancelled) waits->Expire();
  });

  CapturedRun run;
  std::array<char, 4096> buffer;
  while (true) {
    auto [error, got] = co_await waits->output.async_read_some(asio::buffer(buffer), kNoThrow);
    if (waits->expired) co_return Status(ErrorKind::kRetryLater, name + " has not ended in time");
    if (error == asio::error::eof) break;
    if (error) co_return Status::FromErrno(error.value(), "read from " + name);
    run.output.append(buffer.data(), got);
    if (run.output.size() > max_output_bytes) {
      co_return Status(ErrorKind::kBadInput,
                       fmt::format("{} wrote more than {} bytes", name, max_output_bytes));
    }
  }
  while (true) {
    const std::optional<ExitStatus> exit = process->TryReap();
    if (exit.has_value()) {
      run.exit = *exit;
      co_return run;
    }
    co_await waits->ended.async_wait(asio::posix::stream_descriptor::wait_read, kNoThrow);
    if (waits->expired) co_return Status(ErrorKind::kRetryLater, name + " has not ended in time");
  }
}

}  // namespace tfos::control
