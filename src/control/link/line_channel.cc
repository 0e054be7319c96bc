#include "control/link/line_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/write.hpp>
#include <tuple>
#include <utility>

#include "base/logging.h"
#include "control/link/spawn.h"
#include "control/messages/parts/message_text.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

/// Whether a read would return at once.
bool IsReadable(int fd) {
  pollfd readable = {.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&readable, 1, 0) > 0;
}

}  // namespace

LineChannel::LineChannel(const asio::any_io_executor& executor, UniqueFd input, UniqueFd output)
    : executor_(executor),
      input_(executor, input.Release()),
      output_(executor, output.Release()),
      lines_(kMaxMessageBytes),
      sent_(executor) {}

asio::awaitable<Result<std::optional<std::string>>> LineChannel::ReadLine() {
  while (true) {
    Result<std::optional<std::string>> line = lines_.NextLine();
    if (!line.ok() || line->has_value()) co_return line;
    Result<bool> more = co_await ReadMore();
    if (!more.ok()) co_return more.status();
    if (!*more) co_return std::optional<std::string>();
  }
}

asio::awaitable<Result<std::string>> LineChannel::ReadRaw(std::size_t bytes) {
  std::string raw;
  while (true) {
    raw += lines_.TakeRaw(bytes - raw.size());
    if (raw.size() == bytes) co_return raw;
    Result<bool> more = co_await ReadMore();
    if (!more.ok()) co_return more.status();
    if (!*more) {
      co_return Status(ErrorKind::kReconnect, "the input ended after " +
                                                  std::to_string(raw.size()) + " of " +
                                                  std::to_string(bytes) + " bytes");
    }
  }
}

/// False at the end of the input.
asio::awaitable<Result<bool>> LineChannel::ReadMore() {
  std::array<char, 65536> buffer;
  boost::system::error_code error;
  std::size_t got = 0;
  do {
    if (writer_dead_ && !IsReadable(input_.native_handle())) co_return false;
    std::tie(error, got) = co_await input_.async_read_some(asio::buffer(buffer), kNoThrow);
  } while (error == asio::error::operation_aborted && writer_dead_);
  if (error == asio::error::eof || error == asio::error::connection_reset) co_return false;
  if (error) {
    co_return Status::FromErrno(error.value(), "read a control message");
  }
  lines_.Append({buffer.data(), got});
  co_return true;
}

void LineChannel::Send(std::string bytes) {
  if (reader_gone_) return;
  const std::size_t size = bytes.size();
  if (queue_.Push(std::move(bytes), size)) return StartSending();
  DropSlowReader();
}

void LineChannel::SendLatest(std::string_view kind, SendQueue<std::string>::Make make,
                             std::size_t bytes) {
  if (reader_gone_) return;
  if (queue_.PushLatest(kind, std::move(make), bytes)) return StartSending();
  DropSlowReader();
}

void LineChannel::DropSlowReader() {
  LogError("closing a pipe whose reader has left {} MiB of messages unread", kMaxQueuedBytes >> 20);
  DropReader();
}

void LineChannel::StartSending() {
  if (sending_) return;
  sending_ = true;
  sent_.Reset();
  Spawn(executor_, "send control messages", SendQueued(), [this](const Status&) {
    DropReader();
    sending_ = false;
    sent_.Open();
  });
}

asio::awaitable<void> LineChannel::SendQueued() {
  while (std::optional<std::string> next = queue_.Pop()) {
    auto [error, sent] = co_await asio::async_write(output_, asio::buffer(*next), kNoThrow);
    if (error) DropReader();
  }
  sending_ = false;
  sent_.Open();
}

void LineChannel::DropReader() {
  reader_gone_ = true;
  queue_.Clear();
  // With a socket, the input's descriptor is a twin that stays open; a pipe has no such thing.
  if (output_.is_open()) ::shutdown(output_.native_handle(), SHUT_WR);
  boost::system::error_code ignored;  // the descriptor is released either way
  output_.close(ignored);
}

asio::awaitable<void> LineChannel::Flush(Deadline deadline) {
  if (sending_) co_await sent_.Wait(deadline);
}

void LineChannel::EndInputOfDeadWriter() {
  writer_dead_ = true;
  boost::system::error_code ignored;  // a read that goes on ends with the next line or the pipe
  input_.cancel(ignored);
}

void LineChannel::Close() {
  boost::system::error_code ignored;  // the descriptor is released either way
  input_.close(ignored);
  output_.close(ignored);
}

}  // namespace tfos::control
