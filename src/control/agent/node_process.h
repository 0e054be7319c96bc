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
#include "base/time/deadline.h"
#include "control/agent/child/answer_watch.h"
#include "control/agent/child/executor_log.h"
#include "control/agent/child/supervised_child.h"
#include "control/agent/event_details.h"
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
    /// How long the process may leave pings unanswered; zero: for ever.
    std::chrono::milliseconds answer_timeout{30'000};
  };
  struct Events {
    std::function<void(NodeMessage)> on_message;
    /// Once at most for each step: it can't go on, for the reason that is told.
    std::function<void(const EventDetails& failure)> on_failure;
    /// What the program does, for people: "running, step=7".
    std::function<std::string()> doing;
    /// Once: the process has ended, and everything that it said was heard.
    std::function<void(ExitStatus)> on_end;
    /// There is more of what it has written.
    std::function<void()> on_output;
  };

  static Result<std::unique_ptr<NodeProcess>> Start(const boost::asio::any_io_executor& executor,
                                                    Options options, ExecutorLog& log,
                                                    RepeatedWarnings& warnings, Events events);

  std::int64_t pid() const { return child_->pid(); }
  const OutputLog& written() const { return child_->written(); }
  /// How long it has not answered.
  Clock::Duration silence() const { return answers_.silence(); }

  template <typename Message>
  void Send(const Message& message) {
    lines_.Send(SerializeMessage(message) + '\n');
  }
  /// Only the latest tickets of each queue's epoch wait for a node that reads slowly.
  void Send(const StepTickets& tickets);

  void Stop(std::chrono::milliseconds grace) { child_->Stop(grace); }
  void ExpectEnd(std::chrono::milliseconds patience, std::chrono::milliseconds grace) {
    child_->ExpectEnd(patience, grace);
  }
  void TakeWritten() { child_->TakeWritten(); }

 private:
  NodeProcess(const boost::asio::any_io_executor& executor, UniqueFd input, UniqueFd output,
              std::chrono::milliseconds answer_timeout, RepeatedWarnings& warnings, Events events);

  boost::asio::awaitable<void> Follow();
  /// True when nobody but this object needs to hear of the message.
  bool Take(const NodeMessage& message);
  boost::asio::awaitable<void> WatchAnswers();
  void OnSilence();
  boost::asio::awaitable<void> End(ExitStatus exit);
  void Go(std::string what, boost::asio::awaitable<void> coroutine);

  boost::asio::any_io_executor executor_;
  RepeatedWarnings& warnings_;
  Events events_;
  LineChannel lines_;
  AnswerWatch answers_;
  bool said_silent_ = false;
  AsyncLatch said_all_;
  std::unique_ptr<SupervisedChild> child_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_NODE_PROCESS_H_
