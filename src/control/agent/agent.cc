#include "control/agent/agent.h"

#include <signal.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/logging.h"
#include "base/process/descendants.h"
#include "control/agent/agent_life.h"
#include "control/agent/answers/native_calls.h"
#include "control/agent/answers/question_desk.h"
#include "control/agent/child/executor_log.h"
#include "control/agent/event_details.h"
#include "control/agent/executor_watch.h"
#include "control/agent/node_news.h"
#include "control/agent/node_place.h"
#include "control/agent/node_process.h"
#include "control/agent/node_report.h"
#include "control/agent/node_tensorboard.h"
#include "control/agent/repeated_warnings.h"
#include "control/host/gpus/gpu_watch.h"
#include "control/link/coordinator_link.h"
#include "control/link/line_channel.h"
#include "control/link/spawn.h"
#include "control/link/time_limit.h"
#include "control/messages/agent_messages.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/parts/shared_messages.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

constexpr seconds kBootstrapPatience(60);
/// For a node that has said `done` or `failed` to leave by itself.
constexpr seconds kLeavePatience(10);
/// For what the node's processes have left behind to die of SIGKILL.
constexpr seconds kStrayPatience(2);
/// For the last messages to get away.
constexpr seconds kFlushPatience(2);
/// What has failed must end soon, also when the coordinator takes nothing.
constexpr seconds kTellPatience(1);

class Agent {
 public:
  Agent(asio::io_context& io, AgentOptions options, GpuInventory& inventory)
      : io_(io),
        executor_(io.get_executor()),
        task_(executor_, std::move(options.input), std::move(options.output)),
        log_(executor_, std::move(options.log)),
        signals_(executor_, SIGTERM, SIGINT),
        phase_limit_(executor_),
        watch_(executor_),
        report_(task_),
        place_(executor_, std::move(options.host), inventory, report_),
        executor_jvm_(std::move(options.executor_jvm)),
        gpu_watch_(executor_),
        tensorboard_(executor_, log_, report_, warnings_),
        native_calls_(executor_, std::move(options.native_calls),
                      [this](std::string text) { questions_.OnNativeCalls(std::move(text)); }),
        questions_(executor_, [this](const Answer& answer) { SendAnswer(answer); }) {
    Go("serve the node", Serve());
    Go("watch signals", WatchSignals());
  }

 private:
  // The way up.
  asio::awaitable<void> Serve();
  asio::awaitable<Status> Join();
  void StandByFor(const control::StandBy& other);
  void LimitPhase(std::chrono::nanoseconds patience, std::string step, std::string what);

  // What happens.
  asio::awaitable<void> FollowCoordinator();
  void OnCommand(const AgentCommand& command);
  void OnNodeMessage(NodeMessage message);
  void OnNodeEnd(ExitStatus exit);
  asio::awaitable<void> FollowTask();
  asio::awaitable<void> WatchExecutor();
  asio::awaitable<void> WatchSignals();
  asio::awaitable<void> SendHeartbeats();

  // What is done about it.
  void Handle(AgentEvent event, const EventDetails& details = {});
  void Do(AgentAction action, const EventDetails& details);
  void StartNode(const control::StartNode& start);
  void SendAnswer(const Answer& answer);
  void EndAll(milliseconds grace);
  asio::awaitable<void> EndAllOnceTold();
  void StopAll(milliseconds grace);
  void EndStrays();
  asio::awaitable<void> ReleaseTask();
  asio::awaitable<void> Leave();

  /// Starts a coroutine whose end by an exception is the node's failure.
  void Go(std::string what, asio::awaitable<void> coroutine) {
    Spawn(executor_, what, std::move(coroutine), [this, what](const Status& failure) {
      Handle(AgentEvent::kFailed, Failing(what, failure.ToString()));
    });
  }
  template <typename Message>
  void TellNode(const Message& message) {
    if (life_.node_runs()) node_->Send(message);
  }
  /// Our children that end under supervision. All others were left behind by the node's processes.
  std::array<pid_t, 4> Supervised() const {
    return {node_ == nullptr ? 0 : static_cast<pid_t>(node_->pid()), tensorboard_.pid(),
            gpu_watch_.pid(), native_calls_.pid()};
  }
  FailureReport WithLastLines(FailureReport failure) const {
    if (node_ != nullptr) failure.log_tail = node_->written().LastLines();
    return failure;
  }
  EventDetails ExecutorEnded() const {
    EventDetails details = Failing("watch the executor", watch_.EndedText(), /*lost=*/true);
    details.grace = kNoGrace;
    return details;
  }

  asio::io_context& io_;
  asio::any_io_executor executor_;
  LineChannel task_;
  ExecutorLog log_;
  asio::signal_set signals_;
  TimeLimit phase_limit_;
  ExecutorWatch watch_;

  AgentLife life_;
  NodeNews news_;
  NodeReport report_;
  NodePlace place_;
  const Result<pid_t> executor_jvm_;
  bool stands_by_ = false;  // another attempt has the node
  RepeatedWarnings warnings_;
  std::unique_ptr<NodeProcess> node_;
  GpuWatch gpu_watch_;
  NodeTensorBoard tensorboard_;
  NativeCalls native_calls_;
  QuestionDesk questions_;
};

asio::awaitable<void> Agent::Serve() {
  LimitPhase(kBootstrapPatience, place_.step(), "the launch task has not sent the whole bootstrap");
  Status ready = co_await place_.ReadOrder(task_);
  phase_limit_.Lift();
  if (ready.ok() && !life_.over()) {
    Go("follow the launch task", FollowTask());
    ready = co_await Join();
  }
  if (life_.over()) co_return;
  if (!ready.ok()) {
    Handle(AgentEvent::kFailed, Failing(place_.step(), ready.ToString()));
    co_return;
  }
  co_await FollowCoordinator();
}

asio::awaitable<Status> Agent::Join() {
  const Status watched = place_.WatchExecutor(watch_, executor_jvm_);
  if (!watched.ok()) co_return watched;
  if (watch_.begun()) Go("watch the executor", WatchExecutor());
  const Status joined = co_await place_.Join([this] { return life_.over(); });
  if (!joined.ok() || life_.over()) co_return joined;
  Go("send heartbeats", SendHeartbeats());
  // The coordinator has this deadline too and knows who is missing; it comes first.
  LimitPhase(place_.bootstrap().registration_timeout + place_.bootstrap().heartbeat_timeout,
             place_.step(), "the coordinator has not started the cluster in time");
  co_return Status::Ok();
}

void Agent::StandByFor(const control::StandBy& other) {
  LogInfo("another attempt has this node, and this one waits until Spark ends it: {}",
          other.reason);
  stands_by_ = true;
  phase_limit_.Lift();
  // The host's other nodes may need them.
  place_.GiveBack();
  report_.StandBy(other);
}

void Agent::LimitPhase(std::chrono::nanoseconds patience, std::string step, std::string what) {
  phase_limit_.Set(patience, [this, step = std::move(step), what = std::move(what)] {
    Handle(AgentEvent::kFailed, Failing(step, what));
  });
}

asio::awaitable<void> Agent::FollowCoordinator() {
  const Endpoint& coordinator = place_.bootstrap().coordinator;
  while (true) {
    Result<std::string> text = co_await place_.link()->Read();
    if (life_.left()) co_return;
    if (!text.ok() && stands_by_) {
      LogInfo("the coordinator has ended; this attempt goes on waiting for Spark to end it");
      Handle(AgentEvent::kStopAsked);
      co_return;
    }
    if (!text.ok()) {
      Handle(AgentEvent::kCoordinatorLost,
             Failing("follow the coordinator",
                     fmt::format("lost the coordinator at {}: {}", coordinator.ToString(),
                                 text.status().ToString())));
      co_return;
    }
    Result<AgentCommand> command = ParseMessage<AgentCommand>(*text);
    if (!command.ok()) {
      Handle(AgentEvent::kCoordinatorLost,
             Failing("follow the coordinator", command.status().ToString()));
      co_return;
    }
    OnCommand(*command);
  }
}

void Agent::OnCommand(const AgentCommand& command) {
  const auto tell_node = [this](const auto& message) { TellNode(message); };
  if (news_.Keep(command, tell_node) || PassOn(command, tell_node)) return;
  if (const auto* start = std::get_if<control::StartNode>(&command)) {
    EventDetails details = Failing("start the node", "the coordinator sent `start` twice");
    details.start = start;
    Handle(AgentEvent::kStartAsked, details);
  } else if (const auto* ended = std::get_if<EndFeed>(&command)) {
    report_.EndFeed(*ended);
    tell_node(*ended);
  } else if (const auto* stop = std::get_if<Stop>(&command)) {
    LogInfo("told to stop: {}", stop->reason);
    Handle(AgentEvent::kStopAsked, {.grace = stop->grace, .reason = stop->reason});
  } else if (const auto* refused = std::get_if<Refused>(&command)) {
    Handle(AgentEvent::kFailed,
           Failing("register", "the coordinator refused this node: " + refused->message));
  } else if (const auto* other = std::get_if<control::StandBy>(&command)) {
    StandByFor(*other);
  } else if (const auto* tunnel = std::get_if<OpenTunnel>(&command)) {
    if (life_.tensorboard_runs()) tensorboard_.OpenTunnel(place_.door(), tunnel->number);
  } else if (const auto* question = std::get_if<Question>(&command)) {
    questions_.Take(*question);
  } else if (const auto* unknown = std::get_if<UnknownMessage>(&command)) {
    warnings_.LogUnknown("coordinator", unknown->type);
  }
}

void Agent::OnNodeMessage(NodeMessage message) {
  // A process that the node has left behind may go on talking.
  if (!life_.node_runs()) return;
  if (auto* failed = std::get_if<FailureMessage>(&message)) {
    // What the node printed before it sent this belongs to the last lines of its log. Only the
    // first failure is told, and only that one needs them.
    if (life_.verdict() == AgentVerdict::kOpen) node_->TakeWritten();
    Handle(AgentEvent::kNodeSaidFailed, {.failure = std::move(failed->failure)});
  } else if (std::holds_alternative<Done>(message)) {
    Handle(AgentEvent::kNodeSaidDone);
  } else if (auto* stacks = std::get_if<Stacks>(&message)) {
    questions_.OnStacks(std::move(*stacks));
  } else if (auto* profile = std::get_if<Profile>(&message)) {
    questions_.OnProfile(std::move(*profile));
  } else if (const auto* unknown = std::get_if<UnknownMessage>(&message)) {
    warnings_.LogUnknown("node", unknown->type);
  } else {
    report_.Relay(std::move(message), warnings_);
  }
}

void Agent::OnNodeEnd(ExitStatus exit) {
  gpu_watch_.Stop();
  native_calls_.Stop();
  report_.SetGpuUsage(std::nullopt);
  EndStrays();
  // Before the last word, after which the coordinator may close.
  questions_.End();
  if (life_.verdict() == AgentVerdict::kDone && !exit.success()) {
    LogWarning("the node {} after its program had returned", exit.Describe());
  }
  Handle(AgentEvent::kNodeEnded,
         Failing("run the node", "the node's process " + exit.Describe(),
                 // Any other signal came from the program itself, and would come again elsewhere.
                 exit.signalled && (exit.code == SIGKILL || exit.code == SIGTERM)));
}

asio::awaitable<void> Agent::FollowTask() {
  const Status left =
      co_await FollowLaunchTask(task_, warnings_, [this] { Handle(AgentEvent::kTaskDetached); });
  if (left.ok() && stands_by_) {
    LogInfo("Spark has ended the attempt that stood by");
    Handle(AgentEvent::kStopAsked);
    co_return;
  }
  EventDetails details = Failing("follow the launch task", left.ToString());
  if (left.ok()) {
    // A task whose executor ends has died of that. Neither is the program's fault.
    details = watch_.IsEnding() ? ExecutorEnded()
                                : Failing("follow the launch task",
                                          "the Spark task that had started the node was killed or "
                                          "has died",
                                          /*lost=*/true);
  }
  Handle(AgentEvent::kTaskLost, details);
}

asio::awaitable<void> Agent::WatchExecutor() {
  // Named: GCC 12 takes a condition that awaits for unreachable.
  const bool ended = co_await watch_.AwaitEnd();
  if (ended) Handle(AgentEvent::kFailed, ExecutorEnded());
}

asio::awaitable<void> Agent::WatchSignals() {
  auto [error, signal] = co_await signals_.async_wait(kNoThrow);
  if (error) co_return;
  Handle(AgentEvent::kFailed,
         Failing("run the agent", fmt::format("the agent was told to end by signal {}", signal),
                 /*lost=*/true));
}

asio::awaitable<void> Agent::SendHeartbeats() {
  asio::steady_timer timer(executor_);
  while (!life_.left()) {
    timer.expires_after(place_.bootstrap().heartbeat_interval);
    co_await timer.async_wait(kNoThrow);
    ReapOrphans(Supervised());
    report_.SetSilence(life_.node_runs() ? node_->silence() : Clock::Duration::zero());
    report_.SetGpuUsage(gpu_watch_.usage());
    report_.SendHeartbeat();
  }
}

void Agent::Handle(AgentEvent event, const EventDetails& details) {
  for (const AgentAction action : life_.Handle(event)) Do(action, details);
}

void Agent::Do(AgentAction action, const EventDetails& details) {
  switch (action) {
    case AgentAction::kStartNode:
      StartNode(*details.start);
      break;
    case AgentAction::kTellFailure:
      LogError("failed to {}: {}", details.failure.step, details.failure.message);
      report_.TellFailure(WithLastLines(details.failure));
      break;
    case AgentAction::kLogFailure:
      // After a failure or a stop it follows from that.
      Log(life_.verdict() == AgentVerdict::kDone ? LogLevel::kWarning : LogLevel::kInfo,
          "failed to {} when that no longer mattered: {}", details.failure.step,
          details.failure.message);
      break;
    case AgentAction::kTellDone:
      report_.TellDone();
      break;
    case AgentAction::kExpectEnd:
      node_->ExpectEnd(kLeavePatience, kGrace);
      break;
    case AgentAction::kPassStop:
      node_->Send(Stop{.reason = details.reason, .grace = details.grace});
      report_.EnterDraining(details.reason);
      break;
    case AgentAction::kReleaseTask:
      LogInfo("the node is done; its TensorBoard stays until the cluster ends");
      Go("release the launch task", ReleaseTask());
      break;
    case AgentAction::kEndAll:
      EndAll(details.grace);
      break;
    case AgentAction::kLeave:
      Spawn(executor_, "leave", Leave(), [this](const Status&) { io_.stop(); });
      break;
  }
}

void Agent::StartNode(const control::StartNode& start) {
  phase_limit_.Lift();
  report_.TellFormed();
  Result<std::unique_ptr<NodeProcess>> node = NodeProcess::Start(
      executor_, place_.OptionsOfNode(start), log_, warnings_,
      {.on_message = [this](NodeMessage message) { OnNodeMessage(std::move(message)); },
       .on_failure = [this](const EventDetails& details) { Handle(AgentEvent::kFailed, details); },
       .doing = [this] { return report_.Doing(); },
       .on_end = [this](ExitStatus exit) { OnNodeEnd(exit); },
       .on_output = [this] { questions_.OnOutput(); }});
  if (!node.ok()) {
    Handle(AgentEvent::kFailed, Failing("start the node", node.status().ToString()));
    return;
  }
  node_ = std::move(node).value();
  questions_.Begin(
      node_->pid(), node_->written(),
      {.stacks = [this](bool gentle) { TellNode(TellStacks{gentle}); },
       .profile = [this](milliseconds time) { TellNode(TakeProfile{time}); },
       .native_calls = [this] { native_calls_.Ask(static_cast<pid_t>(node_->pid())); }});
  Handle(AgentEvent::kNodeStarted);
  // The node holds the ports from here on, and only the node's own close is to free them.
  place_.ReleasePorts();
  if (report_.feed_end().has_value()) node_->Send(*report_.feed_end());
  gpu_watch_.Start(place_.gpus());
  news_.TellAll([this](const auto& message) { node_->Send(message); });
  report_.SetPid(node_->pid());
  report_.Report(NodeState::kRegistered, "starting its process");
  if (!start.tensorboard) return;
  const bool started = tensorboard_.Start(
      place_.OptionsOfTensorBoard(), [this] { return !life_.over(); },
      [this] { Handle(AgentEvent::kTensorBoardEnded); });
  if (started) Handle(AgentEvent::kTensorBoardStarted);
}

void Agent::SendAnswer(const Answer& answer) {
  if (place_.link() != nullptr) place_.link()->Send(SerializeMessage(answer));
}

void Agent::EndAll(milliseconds grace) {
  phase_limit_.Lift();
  if (grace == kNoGrace && place_.link() != nullptr) {
    Go("end the node", EndAllOnceTold());
  } else {
    StopAll(grace);
  }
}

asio::awaitable<void> Agent::EndAllOnceTold() {
  // Nodes that see the end of a connection to this one report at once what comes of it. The
  // coordinator must hear of the cause before.
  co_await place_.link()->Flush(Deadline::After(kTellPatience));
  StopAll(kNoGrace);
}

void Agent::StopAll(milliseconds grace) {
  if (life_.node_runs()) node_->Stop(grace);
  if (life_.tensorboard_runs()) tensorboard_.Stop(grace);
}

asio::awaitable<void> Agent::ReleaseTask() {
  co_await task_.Flush(Deadline::After(kFlushPatience));
  task_.Close();
}

void Agent::EndStrays() {
  if (const std::size_t left = EndChildren(Supervised(), Deadline::After(kStrayPatience));
      left > 0) {
    LogWarning("{} processes that the node had started can't be killed; the kernel holds them",
               left);
  }
}

asio::awaitable<void> Agent::Leave() {
  EndStrays();
  const Deadline deadline = Deadline::After(kFlushPatience);
  if (place_.link() != nullptr) co_await place_.link()->Close(deadline);
  co_await task_.Flush(deadline);
  co_await log_.Flush(deadline);
  io_.stop();
}

}  // namespace

void RunAgent(AgentOptions options, GpuInventory& inventory) {
  // A process that has left the node's group stays below this one, and ends with the node.
  if (Status adopted = AdoptOrphans(); !adopted.ok()) LogWarning("{}", adopted.ToString());
  asio::io_context io(1);
  Agent agent(io, std::move(options), inventory);
  io.run();
}

}  // namespace tfos::control
