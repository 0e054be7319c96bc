#ifndef TFOS_CONTROL_AGENT_ANSWERS_NATIVE_CALLS_H_
#define TFOS_CONTROL_AGENT_ANSWERS_NATIVE_CALLS_H_

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/process/subprocess.h"
#include "control/host/child_output.h"
#include "tfos/status.h"

namespace tfos::control {

/// Asks in which native calls the threads of the node's process are: it runs a command for each
/// question, `tfos native-stacks PID`, and tells what that prints. The command stops the threads
/// for a moment, so it is not the node's, and not the agent either: to the agent a stop would
/// look like news of its child.
///
/// Owner and lifetime: the object owns the command's process, which also ends with the thread that
/// has started it. The executor must not run any more once the object is destroyed.
/// Threads: those of one single-threaded executor, which it never blocks.
/// Errors: the text says why there are no native calls.
class NativeCalls {
 public:
  /// For the command, which takes 4 s at most by itself.
  static constexpr std::chrono::seconds kPatience{6};
  static constexpr std::size_t kMostBytes = 512u << 10;

  using OnText = std::function<void(std::string text)>;

  /// `command`: without the number of the process, which is added. Empty: there is none.
  /// `on_text` is called once for each `Ask`, maybe at once.
  NativeCalls(const boost::asio::any_io_executor& executor, std::vector<std::string> command,
              OnText on_text, std::chrono::milliseconds patience = kPatience);

  /// Nothing happens while the command runs: then its text is the answer to both.
  void Ask(pid_t pid);

  /// Kills the command, and does not wait for its end. Nothing happens where none runs.
  void Stop() { child_.Kill(); }

  /// Zero where none runs.
  pid_t pid() const { return child_.pid(); }

 private:
  Status Begin(pid_t pid);
  void OnEnd(const ExitStatus& exit);

  const std::vector<std::string> command_;
  const OnText on_text_;
  const std::chrono::milliseconds patience_;
  ChildOutput child_;
  boost::asio::steady_timer limit_;
  std::string text_;
  bool late_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_ANSWERS_NATIVE_CALLS_H_
