#include "control/agent/executor_watch.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/format.h"
#include "base/process/pidfd.h"
#include "base/process/process_state.h"

namespace tfos::control {

namespace asio = boost::asio;

Status ExecutorWatch::Begin(pid_t pid) {
  if (pid == 0) return Status::Ok();
  pid_ = pid;
  Result<UniqueFd> pidfd = OpenPidfd(pid);
  if (!pidfd.ok() && pidfd.status().kind() == ErrorKind::kReconnect) {
    return Status(ErrorKind::kReconnect, EndedText());
  }
  if (!pidfd.ok()) return pidfd.status();
  pidfd_.assign(pidfd->Release());
  return Status::Ok();
}

asio::awaitable<bool> ExecutorWatch::AwaitEnd() {
  auto [error] = co_await pidfd_.async_wait(asio::posix::stream_descriptor::wait_read,
                                            asio::as_tuple(asio::use_awaitable));
  co_return !error;
}

bool ExecutorWatch::IsEnding() const { return begun() && tfos::IsEnding(pid_); }

std::string ExecutorWatch::EndedText() const {
  return fmt::format("the Spark executor (process {}) has ended", pid_);
}

}  // namespace tfos::control
