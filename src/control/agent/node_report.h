#ifndef TFOS_CONTROL_AGENT_NODE_REPORT_H_
#define TFOS_CONTROL_AGENT_NODE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/time/deadline.h"
#include "control/agent/repeated_warnings.h"
#include "control/host/gpus/gpu_usage.h"
#include "control/link/coordinator_link.h"
#include "control/link/line_channel.h"
#include "control/messages/agent_messages.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/parts/shared_messages.h"

namespace tfos::control {

/// What an agent knows of its node and tells the coordinator and the launch task.
///
/// Owner and lifetime: borrows both connections, which must outlive it.
/// Threads: those of one single-threaded executor.
/// Errors: none; what can't be sent is dropped, and the connections' readers say so.
class NodeReport {
 public:
  explicit NodeReport(LineChannel& task) : task_(task) {}

  /// From here on the coordinator is told, too, first of all the registration.
  void ConnectTo(CoordinatorLink& link, Register registration);
  void SendRegister();

  /// For a state that the coordinator knows already: tells only the launch task.
  void Enter(NodeState state, std::string detail);
  /// Tells both.
  void Report(NodeState state, std::string detail);
  /// Tells both what else has changed.
  void ReportAgain() { Report(state_.state, state_.detail); }
  /// For a node that is running, since one that has not come so far has nothing to finish.
  void EnterDraining(std::string detail);
  /// The node gets no more rows: it is draining, at once if it runs later.
  void EndFeed(const control::EndFeed& ended);
  /// None: more rows may come.
  const std::optional<control::EndFeed>& feed_end() const { return feed_end_; }

  /// Tells what the node says of itself: its state, metrics, steps, and the end of its feed.
  void Relay(NodeMessage message, RepeatedWarnings& warnings);

  /// How long the node has not answered, for the next heartbeat.
  void SetSilence(Clock::Duration silence) { silence_ = silence; }
  /// What the node does, as far as it has said, for people: "running, epoch=3, step=120".
  std::string Doing() const;

  /// What the node's GPUs do, for the next heartbeats; nullopt where that is not known.
  void SetGpuUsage(const std::optional<GpuUsage>& usage) { gpus_ = usage; }
  void SetPid(std::int64_t pid) { state_.pid = pid; }
  void SetTensorBoard(std::optional<TensorBoardProcess> process) { state_.tensorboard = process; }

  /// Tells the coordinator the latest metrics, which are also the sign of life. A coordinator
  /// that stands still finds one message.
  void SendHeartbeat();
  void TellFormed();
  /// Tells the launch task alone.
  void StandBy(const control::StandBy& other);
  void TellFailure(FailureReport report);
  void TellDone();

 private:
  /// The node's, and the agent's own.
  Metrics AllMetrics() const;

  LineChannel& task_;
  CoordinatorLink* link_ = nullptr;  // nullptr until the coordinator is there
  Register registration_;
  bool registered_ = false;
  std::optional<control::EndFeed> feed_end_;
  StateReport state_;
  Metrics metrics_;
  std::optional<GpuUsage> gpus_;
  Clock::Duration silence_{0};
  bool tells_silence_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_NODE_REPORT_H_
