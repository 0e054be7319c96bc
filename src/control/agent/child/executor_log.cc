#include "control/agent/child/executor_log.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <cerrno>
#include <utility>

#include "base/format.h"
#include "control/link/spawn.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using asio::experimental::awaitable_operators::operator||;

constexpr std::size_t kMaxPendingBytes = 256 * 1024;
constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

}  // namespace

ExecutorLog::ExecutorLog(const asio::any_io_executor& executor, UniqueFd fd,
                         std::chrono::milliseconds patience)
    : executor_(executor), patience_(patience), fd_(executor, fd.Release()), room_(executor) {
  room_.Open();
}

asio::awaitable<void> ExecutorLog::Write(std::string_view lines) {
  Queue(lines);
  if (gone_ || pending_.size() <= kMaxPendingBytes) co_return;
  room_.Reset();
  // Drain opens it in any case: it gives up after its own patience.
  co_await room_.Wait(Deadline::After(2 * patience_));
}

void ExecutorLog::Queue(std::string_view lines) {
  if (gone_ || lines.empty()) return;
  pending_ += lines;
  if (draining_) return;
  draining_ = true;
  Spawn(executor_, "write to the executor's log", Drain(), [this](const Status&) {
    DropPending();
    draining_ = false;
    room_.Open();
  });
}

asio::awaitable<void> ExecutorLog::Flush(Deadline deadline) {
  if (!draining_) co_return;
  room_.Reset();
  co_await room_.Wait(deadline);
}

asio::awaitable<void> ExecutorLog::Drain() {
  while (!pending_.empty()) {
    if (WriteSome()) continue;
    if (stalled_) {
      DropPending();
      break;
    }
    asio::steady_timer patience(executor_, patience_);
    auto first = co_await (fd_.async_wait(asio::posix::stream_descriptor::wait_write, kNoThrow) ||
                           patience.async_wait(kNoThrow));
    const bool writable = first.index() == 0 && !std::get<0>(std::get<0>(first));
    if (!writable) stalled_ = true;
  }
  draining_ = false;
  room_.Open();
}

bool ExecutorLog::WriteSome() {
  if (dropped_lines_ > 0) {
    // Shorter than PIPE_BUF, so that a pipe takes all of it or nothing. What came before may have
    // been cut in the middle of a line.
    const std::string notice =
        fmt::format("\ntfos: {} lines of output were dropped here: the log did not take them\n",
                    dropped_lines_);
    if (!WriteNow(notice).has_value()) return false;
    dropped_lines_ = 0;
  }
  const std::optional<std::size_t> written = WriteNow(pending_);
  if (!written.has_value()) return false;
  pending_.erase(0, *written);
  stalled_ = false;
  return true;
}

std::optional<std::size_t> ExecutorLog::WriteNow(std::string_view bytes) {
  if (gone_) return bytes.size();
  const int fd = fd_.native_handle();
  ssize_t written = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (written < 0 && errno == ENOTSOCK) written = ::write(fd, bytes.data(), bytes.size());
  if (written >= 0) return static_cast<std::size_t>(written);
  if (errno == EINTR) return 0;
  if (errno == EAGAIN) return std::nullopt;
  if (errno == ENOSPC || errno == EDQUOT) {
    stalled_ = true;  // There may be room later, which no event tells.
    return std::nullopt;
  }
  gone_ = true;
  return bytes.size();
}

void ExecutorLog::DropPending() {
  dropped_lines_ += static_cast<std::size_t>(std::count(pending_.begin(), pending_.end(), '\n'));
  pending_.clear();
}

}  // namespace tfos::control
