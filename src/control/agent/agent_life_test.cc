#include "control/agent/agent_life.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace tfos::control {

namespace {

constexpr std::string_view kPhaseNames[] = {"joining", "node runs", "lingering", "ending", "left"};
constexpr std::string_view kVerdictNames[] = {"open", "stopped", "done", "failed"};
constexpr std::string_view kEventNames[kAgentEvents] = {
    "start asked",      "node started",  "TensorBoard started", "node said done",
    "node said failed", "node ended",    "TensorBoard ended",   "stop asked",
    "coordinator lost", "task detached", "task lost",           "failed"};

std::string NameOf(AgentEvent event) {
  return std::string(kEventNames[static_cast<std::size_t>(event)]);
}

}  // namespace

void PrintTo(AgentPhase phase, std::ostream* out) {
  *out << kPhaseNames[static_cast<std::size_t>(phase)];
}
void PrintTo(AgentVerdict verdict, std::ostream* out) {
  *out << kVerdictNames[static_cast<std::size_t>(verdict)];
}

namespace {

using enum AgentAction;
using enum AgentEvent;
using Events = std::vector<AgentEvent>;
using Phase = AgentPhase;
using Verdict = AgentVerdict;

const Events kRun = {kNodeStarted};
const Events kRunBeside = {kNodeStarted, kTensorBoardStarted};
const Events kLinger = {kNodeStarted, kTensorBoardStarted, kNodeSaidDone, kNodeEnded};
const Events kStopping = {kNodeStarted, kStopAsked};
const Events kLeftAlready = {kStopAsked};

AgentLife After(const Events& events) {
  AgentLife life;
  for (const AgentEvent event : events) life.Handle(event);
  return life;
}

std::string Text(const Events& events) {
  std::string text;
  for (const AgentEvent event : events) text += NameOf(event) + ", ";
  return text;
}

struct Transition {
  Events before;
  AgentEvent event;
  Phase phase;
  Verdict verdict;
  AgentActions actions = {};
};

class AgentLifeTest : public testing::TestWithParam<Transition> {};

TEST_P(AgentLifeTest, GoesOnAsTheTableSays) {
  const Transition& expected = GetParam();
  AgentLife life = After(expected.before);
  const AgentActions actions = life.Handle(expected.event);
  const std::string what = Text(expected.before) + NameOf(expected.event);
  EXPECT_EQ(life.phase(), expected.phase) << what;
  EXPECT_EQ(life.verdict(), expected.verdict) << what;
  EXPECT_EQ(actions, expected.actions) << what;
}

const AgentActions kFailAndLeave = {kTellFailure, kEndAll, kLeave};
const AgentActions kFailAndEnd = {kTellFailure, kEndAll};

INSTANTIATE_TEST_SUITE_P(
    Joining, AgentLifeTest,
    testing::ValuesIn(std::vector<Transition>{
        {{}, kStartAsked, Phase::kJoining, Verdict::kOpen, {kStartNode}},
        {{}, kNodeStarted, Phase::kNodeRuns, Verdict::kOpen},
        {{}, kTensorBoardStarted, Phase::kJoining, Verdict::kOpen},
        {{}, kNodeSaidDone, Phase::kJoining, Verdict::kOpen},
        {{}, kNodeSaidFailed, Phase::kJoining, Verdict::kOpen},
        {{}, kNodeEnded, Phase::kJoining, Verdict::kOpen},
        {{}, kTensorBoardEnded, Phase::kJoining, Verdict::kOpen},
        {{}, kStopAsked, Phase::kLeft, Verdict::kStopped, {kEndAll, kLeave}},
        {{}, kCoordinatorLost, Phase::kLeft, Verdict::kFailed, kFailAndLeave},
        {{}, kTaskDetached, Phase::kJoining, Verdict::kOpen},
        {{}, kTaskLost, Phase::kLeft, Verdict::kFailed, kFailAndLeave},
        {{}, AgentEvent::kFailed, Phase::kLeft, Verdict::kFailed, kFailAndLeave},
        {{kTaskDetached}, kTaskLost, Phase::kJoining, Verdict::kOpen},
    }));

INSTANTIATE_TEST_SUITE_P(
    NodeRuns, AgentLifeTest,
    testing::ValuesIn(std::vector<Transition>{
        {kRun, kStartAsked, Phase::kEnding, Verdict::kFailed, kFailAndEnd},
        {kRun, kNodeStarted, Phase::kNodeRuns, Verdict::kOpen},
        {kRun, kTensorBoardStarted, Phase::kNodeRuns, Verdict::kOpen},
        {kRun, kNodeSaidDone, Phase::kNodeRuns, Verdict::kDone, {kExpectEnd}},
        {kRun, kNodeSaidFailed, Phase::kNodeRuns, Verdict::kFailed, {kTellFailure, kExpectEnd}},
        {kRun, kNodeEnded, Phase::kLeft, Verdict::kFailed, kFailAndLeave},
        {kRunBeside, kTensorBoardEnded, Phase::kNodeRuns, Verdict::kOpen},
        {kRun, kStopAsked, Phase::kEnding, Verdict::kStopped, {kPassStop, kEndAll}},
        {kRun, kCoordinatorLost, Phase::kEnding, Verdict::kFailed, kFailAndEnd},
        {kRun, kTaskDetached, Phase::kNodeRuns, Verdict::kOpen},
        {kRun, kTaskLost, Phase::kEnding, Verdict::kFailed, kFailAndEnd},
        {kRun, AgentEvent::kFailed, Phase::kEnding, Verdict::kFailed, kFailAndEnd},

        {{kNodeStarted, kTaskDetached}, kTaskLost, Phase::kNodeRuns, Verdict::kOpen},
        {{kNodeStarted, kNodeSaidDone},
         kNodeEnded,
         Phase::kLeft,
         Verdict::kDone,
         {kTellDone, kEndAll, kLeave}},
        {{kNodeStarted, kTensorBoardStarted, kNodeSaidDone},
         kNodeEnded,
         Phase::kLingering,
         Verdict::kDone,
         {kTellDone, kReleaseTask}},
        {{kNodeStarted, kTensorBoardStarted, kNodeSaidDone, kTensorBoardEnded},
         kNodeEnded,
         Phase::kLeft,
         Verdict::kDone,
         {kTellDone, kEndAll, kLeave}},
        {{kNodeStarted, kTensorBoardStarted, kNodeSaidFailed},
         kNodeEnded,
         Phase::kEnding,
         Verdict::kFailed,
         {kEndAll}},
        {kRunBeside, kNodeEnded, Phase::kEnding, Verdict::kFailed, kFailAndEnd},
        // A node that is done can't fail any more, and one that has failed isn't done.
        {{kNodeStarted, kNodeSaidDone},
         kNodeSaidFailed,
         Phase::kNodeRuns,
         Verdict::kDone,
         {kLogFailure, kExpectEnd}},
        {{kNodeStarted, kNodeSaidFailed},
         kNodeSaidDone,
         Phase::kNodeRuns,
         Verdict::kFailed,
         {kExpectEnd}},
        {{kNodeStarted, kNodeSaidDone},
         kCoordinatorLost,
         Phase::kEnding,
         Verdict::kDone,
         {kLogFailure, kEndAll}},
        {{kNodeStarted, kNodeSaidDone},
         kStopAsked,
         Phase::kEnding,
         Verdict::kDone,
         {kPassStop, kEndAll}},
        {{kNodeStarted, kNodeSaidFailed},
         kStopAsked,
         Phase::kEnding,
         Verdict::kFailed,
         {kPassStop, kEndAll}},
    }));

INSTANTIATE_TEST_SUITE_P(
    Lingering, AgentLifeTest,
    testing::ValuesIn(std::vector<Transition>{
        {kLinger, kStartAsked, Phase::kEnding, Verdict::kDone, {kLogFailure, kEndAll}},
        {kLinger, kNodeStarted, Phase::kLingering, Verdict::kDone},
        {kLinger, kTensorBoardStarted, Phase::kLingering, Verdict::kDone},
        {kLinger, kNodeSaidDone, Phase::kLingering, Verdict::kDone},
        {kLinger, kNodeSaidFailed, Phase::kLingering, Verdict::kDone},
        {kLinger, kNodeEnded, Phase::kLingering, Verdict::kDone},
        {kLinger, kTensorBoardEnded, Phase::kLeft, Verdict::kDone, {kEndAll, kLeave}},
        {kLinger, kStopAsked, Phase::kEnding, Verdict::kDone, {kEndAll}},
        {kLinger, kCoordinatorLost, Phase::kEnding, Verdict::kDone, {kLogFailure, kEndAll}},
        {kLinger, kTaskDetached, Phase::kLingering, Verdict::kDone},
        {kLinger, kTaskLost, Phase::kLingering, Verdict::kDone},
        {kLinger, AgentEvent::kFailed, Phase::kEnding, Verdict::kDone, {kLogFailure, kEndAll}},
    }));

INSTANTIATE_TEST_SUITE_P(
    Ending, AgentLifeTest,
    testing::ValuesIn(std::vector<Transition>{
        {kStopping, kStartAsked, Phase::kEnding, Verdict::kStopped},
        {kStopping, kNodeStarted, Phase::kEnding, Verdict::kStopped},
        {kStopping, kTensorBoardStarted, Phase::kEnding, Verdict::kStopped},
        {kStopping, kNodeSaidDone, Phase::kEnding, Verdict::kDone, {kExpectEnd}},
        {kStopping, kNodeSaidFailed, Phase::kEnding, Verdict::kStopped, {kLogFailure, kExpectEnd}},
        {kStopping, kNodeEnded, Phase::kLeft, Verdict::kDone, {kTellDone, kEndAll, kLeave}},
        {kStopping, kTensorBoardEnded, Phase::kEnding, Verdict::kStopped},
        {kStopping, kStopAsked, Phase::kEnding, Verdict::kStopped, {kEndAll}},
        {kStopping, kCoordinatorLost, Phase::kEnding, Verdict::kStopped},
        {kStopping, kTaskDetached, Phase::kEnding, Verdict::kStopped},
        {kStopping, kTaskLost, Phase::kEnding, Verdict::kStopped},
        {kStopping, AgentEvent::kFailed, Phase::kEnding, Verdict::kFailed, kFailAndEnd},

        {{kNodeStarted, AgentEvent::kFailed},
         kNodeEnded,
         Phase::kLeft,
         Verdict::kFailed,
         {kEndAll, kLeave}},
        {{kNodeStarted, AgentEvent::kFailed},
         AgentEvent::kFailed,
         Phase::kEnding,
         Verdict::kFailed,
         {kLogFailure, kEndAll}},
        {{kNodeStarted, AgentEvent::kFailed},
         kStopAsked,
         Phase::kEnding,
         Verdict::kFailed,
         {kEndAll}},
        // Where there are two processes, the first to end is not the last.
        {{kNodeStarted, kTensorBoardStarted, kStopAsked},
         kNodeEnded,
         Phase::kEnding,
         Verdict::kDone,
         {kTellDone, kEndAll}},
        {{kNodeStarted, kTensorBoardStarted, kStopAsked},
         kTensorBoardEnded,
         Phase::kEnding,
         Verdict::kStopped},
        {{kNodeStarted, kTensorBoardStarted, kStopAsked, kNodeEnded},
         kTensorBoardEnded,
         Phase::kLeft,
         Verdict::kDone,
         {kLeave}},
        {{kNodeStarted, kTensorBoardStarted, kStopAsked, kNodeEnded},
         AgentEvent::kFailed,
         Phase::kEnding,
         Verdict::kDone,
         {kLogFailure, kEndAll}},
        {{kNodeStarted, kTensorBoardStarted, kStopAsked, kNodeEnded},
         kNodeEnded,
         Phase::kEnding,
         Verdict::kDone},
    }));

TEST(AgentLifeLeftTest, NothingHappensToAnAgentThatHasLeft) {
  for (std::size_t event = 0; event < kAgentEvents; ++event) {
    AgentLife life = After(kLeftAlready);
    ASSERT_TRUE(life.left());
    EXPECT_THAT(life.Handle(static_cast<AgentEvent>(event)), testing::IsEmpty());
    EXPECT_TRUE(life.left());
    EXPECT_EQ(life.verdict(), Verdict::kStopped);
  }
}

/// What holds on every way through a life.
class Walk {
 public:
  void Take(AgentEvent event) {
    const AgentLife before = life_;
    const AgentActions actions = life_.Handle(event);
    EXPECT_GE(life_.phase(), before.phase()) << "a phase came back";
    if (before.verdict() == Verdict::kDone || before.verdict() == Verdict::kFailed) {
      EXPECT_EQ(life_.verdict(), before.verdict()) << "a final verdict changed";
    }
    if (life_.over()) {
      EXPECT_NE(life_.verdict(), Verdict::kOpen) << "ended without a verdict";
    }
    EXPECT_EQ(life_.left(), life_.over() && !life_.node_runs() && !life_.tensorboard_runs());
    EXPECT_TRUE(life_.phase() != Phase::kNodeRuns || life_.node_runs());
    if (life_.phase() == Phase::kLingering) {
      EXPECT_FALSE(life_.node_runs());
      EXPECT_TRUE(life_.tensorboard_runs());
      EXPECT_EQ(life_.verdict(), Verdict::kDone);
    }
    for (const AgentAction action : actions) {
      failures_ += action == kTellFailure ? 1 : 0;
      dones_ += action == kTellDone ? 1 : 0;
      leaves_ += action == kLeave ? 1 : 0;
    }
    EXPECT_EQ(failures_, life_.verdict() == Verdict::kFailed ? 1 : 0);
    EXPECT_LE(dones_, life_.verdict() == Verdict::kDone ? 1 : 0);
    EXPECT_EQ(leaves_, life_.left() ? 1 : 0);
  }

 private:
  AgentLife life_;
  int failures_ = 0;
  int dones_ = 0;
  int leaves_ = 0;
};

TEST(AgentLifeWalkTest, EveryWayThroughALifeKeepsItsPromises) {
  std::mt19937 random(14);
  std::uniform_int_distribution<std::size_t> any(0, kAgentEvents - 1);
  for (int walk = 0; walk < 20'000 && !testing::Test::HasFailure(); ++walk) {
    Walk way;
    Events events;
    for (int step = 0; step < 12; ++step) {
      events.push_back(static_cast<AgentEvent>(any(random)));
      SCOPED_TRACE(Text(events));
      way.Take(events.back());
    }
  }
}

}  // namespace
}  // namespace tfos::control
