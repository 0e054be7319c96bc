#ifndef TFOS_CONTROL_AGENT_CHILD_SUPERVISED_CHILD_H_
#define TFOS_CONTROL_AGENT_CHILD_SUPERVISED_CHILD_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/process/subprocess.h"
#include "control/agent/child/executor_log.h"
#include "control/agent/child/output_log.h"
#include "control/link/async_latch.h"
#include "tfos/status.h"

namespace tfos::control {

/// A child process whose output goes to the executor's log and whose end is an event.
///
/// Owner and lifetime: the object owns the process; its destructor kills the group. The log must
/// outlive it, and its executor must not run any more once it is destroyed.
/// Threads: those of one single-threaded executor; the thread that starts it must outlive the
/// child.
class SupervisedChild {
 public:
  using OnEnd = std::function<void(ExitStatus)>;

  /// After SIGKILL: the kernel may have much memory to free, or devices to reset.
  static constexpr std::chrono::seconds kKillPatience{30};

  /// `on_end` is called once, after the child was reaped and its output was read; or when it has
  /// not ended within `kill_patience` of SIGKILL (`left_behind`).
  static Result<std::unique_ptr<SupervisedChild>> Start(
      const boost::asio::any_io_executor& executor, SubprocessOptions options, ExecutorLog& log,
      OnEnd on_end, std::chrono::milliseconds kill_patience = kKillPatience);

  /// Zero once the child has ended.
  pid_t pid() const { return process_->pid(); }
  bool ended() const { return process_->pid() == 0; }
  /// The end of its output.
  const OutputLog& written() const { return written_; }
  /// Calls `on_output` whenever there is more of it.
  void WatchOutput(std::function<void()> on_output) { on_output_ = std::move(on_output); }

  /// TERM to the group now, KILL after `grace`; with a grace of zero KILL at once. A later call may
  /// shorten the grace, never lengthen it.
  void Stop(std::chrono::milliseconds grace);

  /// Takes what the child has written so far, up to 1 MiB, into `written` and to the log. Does not
  /// wait for the log's reader.
  void TakeWritten();

  /// Stops the child unless it has ended by itself within `patience`.
  void ExpectEnd(std::chrono::milliseconds patience, std::chrono::milliseconds grace);

 private:
  SupervisedChild(const boost::asio::any_io_executor& executor, std::unique_ptr<Subprocess> process,
                  ExecutorLog& log, OnEnd on_end, std::chrono::milliseconds kill_patience);

  boost::asio::awaitable<void> AwaitEnd();
  boost::asio::awaitable<void> PumpOutput();
  /// Takes them into `written`. Returns the lines that they end, for the log.
  std::string Take(std::string_view bytes);
  void KillAt(boost::asio::steady_timer::time_point moment);
  void Kill();
  /// Tells the end, once.
  void End(ExitStatus exit);

  boost::asio::any_io_executor executor_;
  std::unique_ptr<Subprocess> process_;
  ExecutorLog& log_;
  OnEnd on_end_;
  const std::chrono::milliseconds kill_patience_;
  OutputLog written_;
  std::function<void()> on_output_;
  std::string unfinished_;  // a line of output without its end
  boost::asio::posix::stream_descriptor output_;
  boost::asio::posix::stream_descriptor ended_;
  AsyncLatch output_read_;
  boost::asio::steady_timer expect_timer_;
  boost::asio::steady_timer kill_timer_;
  boost::asio::steady_timer left_timer_;
  bool stopping_ = false;
  bool killed_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_CHILD_SUPERVISED_CHILD_H_
