#ifndef TFOS_CONTROL_AGENT_AGENT_LIFE_H_
#define TFOS_CONTROL_AGENT_AGENT_LIFE_H_

#include <cstddef>
#include <vector>

namespace tfos::control {

/// How far an agent has come. It only ever moves down this list.
enum class AgentPhase {
  kJoining,    ///< On its way to the cluster; the node's process has not been started.
  kNodeRuns,   ///< The node's process lives.
  kLingering,  ///< The node is done, and its TensorBoard stays until the cluster ends.
  kEnding,     ///< Whatever still runs was told to end.
  kLeft,       ///< Nothing runs any more: the agent sends its last messages and ends.
};
inline constexpr std::size_t kAgentPhases = 5;

/// What becomes of the node, as far as that is settled.
enum class AgentVerdict {
  kOpen,
  kStopped,  ///< The coordinator asked for its end.
  kDone,     ///< The node has said so, or has ended as asked. Nothing changes this any more.
  kFailed,   ///< A failure was told. Nothing changes this any more: later ones follow from it.
};

/// What happens to an agent.
enum class AgentEvent {
  kStartAsked,          ///< The coordinator wants the node started.
  kNodeStarted,         ///< Its process runs.
  kTensorBoardStarted,  ///< As does the TensorBoard beside it.
  kNodeSaidDone,
  kNodeSaidFailed,
  kNodeEnded,  ///< Its process has ended, and everything that it said was heard.
  kTensorBoardEnded,
  kStopAsked,        ///< The coordinator wants the node stopped.
  kCoordinatorLost,  ///< Or it says what nobody understands.
  kTaskDetached,     ///< The launch task says that it will leave.
  kTaskLost,         ///< It has left, or says what nobody understands.
  kFailed,  ///< The agent can't go on: a step failed, the executor has ended, a signal came.
};
inline constexpr std::size_t kAgentEvents = 12;

/// What the agent does because of an event, in this order.
enum class AgentAction {
  kStartNode,
  kTellFailure,  ///< To the coordinator and the launch task.
  kLogFailure,   ///< Only: others know the reason already, or it no longer matters.
  kTellDone,     ///< To both of them.
  kExpectEnd,    ///< The node has said its last word: end it unless it leaves by itself soon.
  kPassStop,     ///< Tell the node that it is to stop.
  kReleaseTask,  ///< The launch task may end before the agent does.
  kEndAll,       ///< Tell all that runs to end. A second time it may only shorten the grace.
  kLeave,
};
using AgentActions = std::vector<AgentAction>;

/// An agent's life: the state machine that decides what it does about all that can happen to it.
///
/// Everything that happens is told to it, and it answers with what is to be done. The first failure
/// wins: it is told once. A node that is done can't fail any more, and one that is being stopped
/// fails only by what happens to its agent.
///
/// Owner and lifetime: owned by the agent; a value. Threads: one at a time.
/// Errors: none; an event that makes no sense in a phase changes nothing.
class AgentLife {
 public:
  AgentActions Handle(AgentEvent event);

  AgentPhase phase() const { return phase_; }
  AgentVerdict verdict() const { return verdict_; }
  /// The end has begun.
  bool over() const { return phase_ >= AgentPhase::kEnding; }
  bool left() const { return phase_ == AgentPhase::kLeft; }
  bool node_runs() const { return node_runs_; }
  bool tensorboard_runs() const { return tensorboard_runs_; }

 private:
  void Blame(AgentActions& actions);
  void Fail(AgentActions& actions);
  void Stop(AgentActions& actions);
  void EndNode(AgentActions& actions);
  void End(AgentActions& actions);
  void LeaveIfNothingRuns(AgentActions& actions);

  AgentPhase phase_ = AgentPhase::kJoining;
  AgentVerdict verdict_ = AgentVerdict::kOpen;
  // While it ends, any of the two may be left.
  bool node_runs_ = false;
  bool tensorboard_runs_ = false;
  bool task_may_leave_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_AGENT_LIFE_H_
