#ifndef TFOS_CONTROL_AGENT_CHILD_EXECUTOR_LOG_H_
#define TFOS_CONTROL_AGENT_CHILD_EXECUTOR_LOG_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/process/unique_fd.h"
#include "base/time/deadline.h"
#include "control/link/async_latch.h"
#include "tfos/status.h"

namespace tfos::control {

/// The executor's log: where the output of nodes goes, unchanged.
///
/// Owner and lifetime: outlives the coroutines that write to it.
/// Threads: those of one single-threaded executor.
/// Errors: none. A writer waits while the log's reader is slow, up to `patience`; from then on
/// lines are dropped, and their number is said, until it reads again. So are those that come while
/// a file's disk is full. A reader that is gone takes nothing any more.
class ExecutorLog {
 public:
  static constexpr std::chrono::seconds kPatience{5};

  ExecutorLog(const boost::asio::any_io_executor& executor, UniqueFd fd,
              std::chrono::milliseconds patience = kPatience);

  /// Takes whole lines. Returns when there is room for more.
  boost::asio::awaitable<void> Write(std::string_view lines);

  /// Takes whole lines without waiting for room. The caller must bound them.
  void Queue(std::string_view lines);

  /// Waits until everything is written or dropped.
  boost::asio::awaitable<void> Flush(Deadline deadline);

 private:
  boost::asio::awaitable<void> Drain();
  /// False when the reader is full.
  bool WriteSome();
  /// How many bytes were taken, all of them by a reader that is gone; nullopt when it is full.
  std::optional<std::size_t> WriteNow(std::string_view bytes);
  void DropPending();

  boost::asio::any_io_executor executor_;
  const std::chrono::milliseconds patience_;
  boost::asio::posix::stream_descriptor fd_;
  AsyncLatch room_;
  std::string pending_;
  std::size_t dropped_lines_ = 0;
  bool draining_ = false;
  bool stalled_ = false;
  bool gone_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_CHILD_EXECUTOR_LOG_H_
