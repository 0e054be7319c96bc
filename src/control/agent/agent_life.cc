#include "control/agent/agent_life.h"

#include <array>

namespace tfos::control {
namespace {

/// What an event does in a phase.
enum class Step {
  kNone,
  kStart,           // ask for the node's process
  kRun,             // it runs
  kShow,            // TensorBoard runs
  kSayDone,         // the node's verdict: done
  kBlame,           // the node's verdict: failed
  kEndNode,         // the node is over: linger or end
  kHide,            // TensorBoard is over
  kEnd,             // end what runs
  kStop,            // the same because the coordinator wants it
  kDetach,          // the launch task may leave
  kFail,            // tell a failure and end what runs
  kFailUnlessLeft,  // the same, unless the launch task was allowed to leave
};

using Row = std::array<Step, kAgentPhases>;

// By event, in the order of AgentEvent; in a row by phase, in the order of AgentPhase.
constexpr std::array<Row, kAgentEvents> kSteps = {{
    // joining, node runs, lingering, ending, left
    {Step::kStart, Step::kFail, Step::kFail, Step::kNone, Step::kNone},       // start asked
    {Step::kRun, Step::kNone, Step::kNone, Step::kNone, Step::kNone},         // node started
    {Step::kNone, Step::kShow, Step::kNone, Step::kNone, Step::kNone},        // TensorBoard started
    {Step::kNone, Step::kSayDone, Step::kNone, Step::kSayDone, Step::kNone},  // node said done
    {Step::kNone, Step::kBlame, Step::kNone, Step::kBlame, Step::kNone},      // node said failed
    {Step::kNone, Step::kEndNode, Step::kNone, Step::kEndNode, Step::kNone},  // node ended
    {Step::kNone, Step::kHide, Step::kEnd, Step::kHide, Step::kNone},         // TensorBoard ended
    {Step::kStop, Step::kStop, Step::kStop, Step::kStop, Step::kNone},        // stop asked
    {Step::kFail, Step::kFail, Step::kFail, Step::kNone, Step::kNone},        // coordinator lost
    {Step::kDetach, Step::kDetach, Step::kNone, Step::kNone, Step::kNone},    // task detached
    {Step::kFailUnlessLeft, Step::kFailUnlessLeft, Step::kNone, Step::kNone,  // task lost
     Step::kNone},
    {Step::kFail, Step::kFail, Step::kFail, Step::kFail, Step::kNone},  // failed
}};

template <typename Enum>
constexpr std::size_t Index(Enum value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

AgentActions AgentLife::Handle(AgentEvent event) {
  AgentActions actions;
  switch (kSteps[Index(event)][Index(phase_)]) {
    case Step::kNone:
      break;
    case Step::kStart:
      actions.push_back(AgentAction::kStartNode);
      break;
    case Step::kRun:
      phase_ = AgentPhase::kNodeRuns;
      node_runs_ = true;
      break;
    case Step::kShow:
      tensorboard_runs_ = true;
      break;
    case Step::kSayDone:
      if (verdict_ != AgentVerdict::kFailed) verdict_ = AgentVerdict::kDone;
      if (node_runs_) actions.push_back(AgentAction::kExpectEnd);
      break;
    case Step::kBlame:
      Blame(actions);
      break;
    case Step::kEndNode:
      EndNode(actions);
      break;
    case Step::kHide:
      tensorboard_runs_ = false;
      LeaveIfNothingRuns(actions);
      break;
    case Step::kEnd:
      tensorboard_runs_ = false;
      End(actions);
      break;
    case Step::kStop:
      Stop(actions);
      break;
    case Step::kDetach:
      task_may_leave_ = true;
      break;
    case Step::kFailUnlessLeft:
      if (!task_may_leave_) Fail(actions);
      break;
    case Step::kFail:
      Fail(actions);
      break;
  }
  return actions;
}

void AgentLife::Blame(AgentActions& actions) {
  if (verdict_ == AgentVerdict::kOpen) {
    verdict_ = AgentVerdict::kFailed;
    actions.push_back(AgentAction::kTellFailure);
  } else {
    actions.push_back(AgentAction::kLogFailure);
  }
  if (node_runs_) actions.push_back(AgentAction::kExpectEnd);
}

void AgentLife::Fail(AgentActions& actions) {
  if (verdict_ == AgentVerdict::kOpen || verdict_ == AgentVerdict::kStopped) {
    verdict_ = AgentVerdict::kFailed;
    actions.push_back(AgentAction::kTellFailure);
  } else {
    actions.push_back(AgentAction::kLogFailure);
  }
  End(actions);
}

void AgentLife::Stop(AgentActions& actions) {
  if (verdict_ == AgentVerdict::kOpen) verdict_ = AgentVerdict::kStopped;
  if (node_runs_ && phase_ != AgentPhase::kEnding) actions.push_back(AgentAction::kPassStop);
  End(actions);
}

void AgentLife::EndNode(AgentActions& actions) {
  if (!node_runs_) return;
  node_runs_ = false;
  if (verdict_ == AgentVerdict::kOpen) {
    verdict_ = AgentVerdict::kFailed;
    actions.push_back(AgentAction::kTellFailure);
  } else if (verdict_ != AgentVerdict::kFailed) {
    verdict_ = AgentVerdict::kDone;
    actions.push_back(AgentAction::kTellDone);
  }
  if (phase_ == AgentPhase::kNodeRuns && verdict_ == AgentVerdict::kDone && tensorboard_runs_) {
    phase_ = AgentPhase::kLingering;
    // The Spark task must not wait for the end of the cluster.
    task_may_leave_ = true;
    actions.push_back(AgentAction::kReleaseTask);
    return;
  }
  End(actions);
}

void AgentLife::End(AgentActions& actions) {
  phase_ = AgentPhase::kEnding;
  actions.push_back(AgentAction::kEndAll);
  LeaveIfNothingRuns(actions);
}

void AgentLife::LeaveIfNothingRuns(AgentActions& actions) {
  if (phase_ != AgentPhase::kEnding || node_runs_ || tensorboard_runs_) return;
  phase_ = AgentPhase::kLeft;
  actions.push_back(AgentAction::kLeave);
}

}  // namespace tfos::control
