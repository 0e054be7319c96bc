#ifndef TFOS_CONTROL_LINK_LINE_CHANNEL_H_
#define TFOS_CONTROL_LINK_LINE_CHANNEL_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/line_buffer.h"
#include "base/unique_fd.h"
#include "control/link/async_latch.h"
#include "tfos/status.h"

namespace tfos::control {

/// Lines over a pair of pipes or a socket, for coroutines.
///
/// Owner and lifetime: owns its descriptors; outlives the coroutines that use it.
/// Threads: those of one single-threaded executor. One reader at a time; anyone may send.
/// Errors: reading reports; sending doesn't: what a reader that is gone cannot take is dropped, as
/// its death shows elsewhere.
class LineChannel {
 public:
  LineChannel(const boost::asio::any_io_executor& executor, UniqueFd input, UniqueFd output);

  /// The next line; nullopt at the end of the input. Bad input for a line over the limit of a
  /// control message.
  boost::asio::awaitable<Result<std::optional<std::string>>> ReadLine();

  /// Exactly `bytes` bytes; reconnect when the input ends before.
  boost::asio::awaitable<Result<std::string>> ReadRaw(std::size_t bytes);

  /// Queues bytes; a line brings its own line feed.
  void Send(std::string bytes);

  /// Waits until everything is sent or dropped.
  boost::asio::awaitable<void> Flush(Deadline deadline);

  void Close();

 private:
  boost::asio::awaitable<Result<bool>> ReadMore();
  boost::asio::awaitable<void> SendQueued();

  boost::asio::any_io_executor executor_;
  boost::asio::posix::stream_descriptor input_;
  boost::asio::posix::stream_descriptor output_;
  LineBuffer lines_;
  std::deque<std::string> queue_;
  AsyncLatch sent_;
  bool sending_ = false;
  bool reader_gone_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_LINE_CHANNEL_H_
