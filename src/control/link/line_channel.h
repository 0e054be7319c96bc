#ifndef TFOS_CONTROL_LINK_LINE_CHANNEL_H_
#define TFOS_CONTROL_LINK_LINE_CHANNEL_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/process/unique_fd.h"
#include "base/text/line_buffer.h"
#include "base/time/deadline.h"
#include "control/link/async_latch.h"
#include "control/link/send_queue.h"
#include "tfos/status.h"

namespace tfos::control {

/// Lines over a pair of pipes or a socket, for coroutines.
///
/// Owner and lifetime: owns its descriptors; outlives the coroutines that use it.
/// Threads: those of one single-threaded executor. One reader at a time; anyone may send.
/// Errors: reading reports; sending doesn't: what a reader that is gone cannot take is dropped, as
/// its death shows elsewhere. A reader that leaves kMaxQueuedBytes unread counts as gone: it gets
/// the end of the stream, so that it can't take a part of the messages for all of them.
class LineChannel {
 public:
  static constexpr std::size_t kMaxQueuedBytes = 64u << 20;

  LineChannel(const boost::asio::any_io_executor& executor, UniqueFd input, UniqueFd output);

  /// The next line; nullopt at the end of the input. Bad input for a line over the limit of a
  /// control message.
  boost::asio::awaitable<Result<std::optional<std::string>>> ReadLine();

  /// Exactly `bytes` bytes; reconnect when the input ends before.
  boost::asio::awaitable<Result<std::string>> ReadRaw(std::size_t bytes);

  /// Queues bytes; a line brings its own line feed.
  void Send(std::string bytes);

  /// For state: of each `kind` one line at most waits, and `make` makes it when it is its turn.
  /// `bytes`: what `make` keeps until then.
  void SendLatest(std::string_view kind, SendQueue<std::string>::Make make, std::size_t bytes = 0);

  /// Waits until everything is sent or dropped.
  boost::asio::awaitable<void> Flush(Deadline deadline);

  /// The process that wrote the input has died. What it had written is still read, and then the
  /// input ends, also where children that it had forked hold its end of the pipe.
  void EndInputOfDeadWriter();

  void Close();

 private:
  boost::asio::awaitable<Result<bool>> ReadMore();
  void StartSending();
  boost::asio::awaitable<void> SendQueued();
  void DropReader();
  /// The reader counts as gone.
  void DropSlowReader();

  boost::asio::any_io_executor executor_;
  boost::asio::posix::stream_descriptor input_;
  boost::asio::posix::stream_descriptor output_;
  LineBuffer lines_;
  SendQueue<std::string> queue_{kMaxQueuedBytes};
  AsyncLatch sent_;
  bool sending_ = false;
  bool reader_gone_ = false;
  bool writer_dead_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_LINE_CHANNEL_H_
