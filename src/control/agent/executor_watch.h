#ifndef TFOS_CONTROL_AGENT_EXECUTOR_WATCH_H_
#define TFOS_CONTROL_AGENT_EXECUTOR_WATCH_H_

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <string>

#include "tfos/status.h"

namespace tfos::control {

/// Watches the Spark executor, which the node must not outlive.
///
/// Owner and lifetime: outlives the coroutine that waits on it.
/// Threads: those of one single-threaded executor.
class ExecutorWatch {
 public:
  explicit ExecutorWatch(const boost::asio::any_io_executor& executor) : pidfd_(executor) {}

  /// Watches process `pid`; 0 means none. Reconnect when it has ended already.
  Status Begin(pid_t pid);
  bool begun() const { return pidfd_.is_open(); }

  /// Returns true once the process has ended, and false when the wait itself failed.
  boost::asio::awaitable<bool> AwaitEnd();
  /// Whether it has ended or is about to. A process that is killed closes its pipes, which end its
  /// tasks, a moment before it has ended.
  bool IsEnding() const;
  /// The end in words.
  std::string EndedText() const;

 private:
  pid_t pid_ = 0;
  boost::asio::posix::stream_descriptor pidfd_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_EXECUTOR_WATCH_H_
