#ifndef TFOS_CONTROL_AGENT_NODE_PROCESS_H_
#define TFOS_CONTROL_AGENT_NODE_PROCESS_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/process/subprocess.h"
#include "control/agent/child/executor_log.h"
#include "control/agent/child/supervised_child.h"
#include "control/agent/repeated_warnings.h"
#include "control/link/async_latch.h"
#include "control/link/line_channel.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/shared_messages.h"
#include "tfos/status.h"

namespace tfos::control {

/// The node: its process and the messages to and from it.
///
/// Owner and lifetime: as of SupervisedChild; `log` and `warnings` must outlive it.
/// Threads: those of one single-threaded executor; the thread that starts it must outlive the node.
class NodeProcess {
 public:
  struct Options {
    SubprocessOptions process;  ///< TFOS_AGENT_FD is added to its environment.
    NodeBootstrap bootstrap;
    std::string payload;
  };
  struct Events {
    std::function<boost::asio::awaitable<void>(NodeMessage)> on_message;
    /// Once at most for each step: it can't go on, for the reason that is told.
    std::function<void(const std::string& step, const std::string& problem)> on_failure;
    /// Once: the process has ended, and everything that it said was heard.
    std::function<void(ExitStatus)> on_end;
  };

  static Result<std::unique_ptr<NodeProcess>> Start(const boost::asio::any_io_executor& executor,
                                                    Options options, ExecutorLog& log,
                                                    RepeatedWarnings& warnings, Events events);

  std::int64_t pid() const { return child_->pid(); }
  const LogTail& tail() const { return child_->tail(); }

  template <typename Message>
  void Send(const Message& message) {
    lines_.Send(SerializeMessage(message) + '\n');
  }
  /// Of each queue's epoch only the latest waits for a node that reads slowly.
  void Send(const StepTickets& tickets);

  void Stop(std::chrono::milliseconds grace) { child_->Stop(grace); }
  void ExpectEnd(std::chrono::milliseconds patience, std::chrono::milliseconds grace) {
    child_->ExpectEnd(patience, grace);
  }
  boost::asio::awaitable<void> TakeWritten() { return child_->TakeWritten(); }

 private:
  NodeProcess(const boost::asio::any_io_executor& executor, UniqueFd input, UniqueFd output,
              RepeatedWarnings& warnings, Events events);

  boost::asio::awaitable<void> Follow();
  boost::asio::awaitable<void> End(ExitStatus exit);
  void Go(std::string what, boost::asio::awaitable<void> coroutine);

  boost::asio::any_io_executor executor_;
  RepeatedWarnings& warnings_;
  Events events_;
  LineChannel lines_;
  AsyncLatch said_all_;
  std::unique_ptr<SupervisedChild> child_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_NODE_PROCESS_H_
