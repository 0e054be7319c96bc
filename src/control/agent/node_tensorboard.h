#ifndef TFOS_CONTROL_AGENT_NODE_TENSORBOARD_H_
#define TFOS_CONTROL_AGENT_NODE_TENSORBOARD_H_

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "control/agent/child/executor_log.h"
#include "control/agent/child/tensorboard.h"
#include "control/agent/node_report.h"
#include "control/agent/repeated_warnings.h"
#include "control/link/coordinator_door.h"

namespace tfos::control {

/// The TensorBoard beside an agent's node, if there is one: where it listens becomes known with the
/// node's state. One that fails is a pity, not a failure of the node.
///
/// Owner and lifetime: the agent's; borrows what it is made of. Its executor must not run any more
/// once it is destroyed.
/// Threads: those of one single-threaded executor.
/// Errors: none; they are logged.
class NodeTensorBoard {
 public:
  NodeTensorBoard(const boost::asio::any_io_executor& executor, ExecutorLog& log,
                  NodeReport& report, RepeatedWarnings& warnings)
      : executor_(executor), log_(log), report_(report), warnings_(warnings) {}

  /// Whether its process has been started; then `on_end` is called once when that has ended.
  /// `is_wanted`: whether an end is worth a warning. Call it once.
  bool Start(TensorBoard::Options options, std::function<bool()> is_wanted,
             std::function<void()> on_end);

  /// For one that runs: joins it to the coordinator, which has asked for this tunnel.
  void OpenTunnel(const CoordinatorDoor& door, int number);
  /// For one that runs.
  void Stop(std::chrono::milliseconds grace) { process_->Stop(grace); }

  /// Zero before it starts, and once it has ended.
  pid_t pid() const { return process_ == nullptr ? 0 : process_->pid(); }

 private:
  boost::asio::any_io_executor executor_;
  ExecutorLog& log_;
  NodeReport& report_;
  RepeatedWarnings& warnings_;
  std::unique_ptr<TensorBoard> process_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_NODE_TENSORBOARD_H_
