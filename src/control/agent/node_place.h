#ifndef TFOS_CONTROL_AGENT_NODE_PLACE_H_
#define TFOS_CONTROL_AGENT_NODE_PLACE_H_

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/agent/child/tensorboard.h"
#include "control/agent/executor_watch.h"
#include "control/agent/launch_task.h"
#include "control/agent/node_process.h"
#include "control/agent/node_report.h"
#include "control/host/gpus/gpu_lease.h"
#include "control/host/held_port.h"
#include "control/link/coordinator_link.h"
#include "control/messages/agent_messages.h"
#include "control/messages/launch_messages.h"
#include "tfos/status.h"

namespace tfos::control {

/// A node's place: what the launch task ordered, what the node needs from its host, and the
/// connection to its cluster. An agent acquires them in this order.
///
/// Owner and lifetime: outlives the coroutines that use it; borrows `inventory` and `report`.
/// Threads: those of one single-threaded executor.
/// Errors: each step returns its own; `step` names the one that failed.
class NodePlace {
 public:
  NodePlace(const boost::asio::any_io_executor& executor, std::string host, GpuInventory& inventory,
            NodeReport& report)
      : executor_(executor), host_(std::move(host)), inventory_(inventory), report_(report) {}

  boost::asio::awaitable<Status> ReadOrder(LineChannel& task);

  /// `executor_jvm` is used when the order leaves it to the agent to find the executor.
  Status WatchExecutor(ExecutorWatch& watch, const Result<pid_t>& executor_jvm);

  /// Takes what the node needs from the host, connects and registers. Ends early, with any status,
  /// when `over` says that nobody wants the place any more.
  boost::asio::awaitable<Status> Join(std::function<bool()> over);

  /// What it is or was last busy with.
  const std::string& step() const { return step_; }
  const AgentBootstrap& bootstrap() const { return order_.bootstrap; }
  /// nullptr until the coordinator was reached.
  CoordinatorLink* link() const { return link_.get(); }
  /// The GPUs that the node may use, as CUDA_VISIBLE_DEVICES takes them; from a Join on that was
  /// successful.
  const std::vector<std::string>& gpus() const { return gpus_->indices(); }
  /// For further connections to it, from then on.
  const CoordinatorDoor& door() const { return door_; }

  /// Once only: the payload moves into them.
  NodeProcess::Options OptionsOfNode(const StartNode& start);
  TensorBoard::Options OptionsOfTensorBoard() const;
  /// Gives everything that was taken from the host back to it.
  void GiveBack();
  /// Leaves the ports to the processes that have inherited them.
  void ReleasePorts();

 private:
  boost::asio::awaitable<Status> TakeGpusOfHost(const std::function<bool()>& over);
  boost::asio::awaitable<Status> Connect();
  /// At the addresses that the connection has shown.
  Status TakePorts();
  /// From then on the coordinator hears of the node.
  void Introduce();

  boost::asio::any_io_executor executor_;
  const std::string host_;
  GpuInventory& inventory_;
  NodeReport& report_;
  LaunchOrder order_;
  std::string step_ = "read the bootstrap";
  std::optional<HeldPort> port_;
  std::optional<HeldPort> tensor_port_;
  std::optional<GpuLease> gpus_;
  CoordinatorDoor door_;
  std::unique_ptr<CoordinatorLink> link_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_NODE_PLACE_H_
