#include "control/agent/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/crypto/secret.h"
#include "base/format.h"
#include "base/logging.h"
#include "base/process/pidfd.h"
#include "base/process/subprocess.h"
#include "control/agent/executor_log.h"
#include "control/agent/supervised_child.h"
#include "control/agent/tensorboard.h"
#include "control/host/held_port.h"
#include "control/link/async_latch.h"
#include "control/link/coordinator_link.h"
#include "control/link/line_channel.h"
#include "control/link/spawn.h"
#include "control/messages/messages.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

constexpr seconds kBootstrapPatience(60);
constexpr seconds kConnectPatience(30);
constexpr seconds kInventoryPatience(10);
/// GPUs of a cluster that has just ended may be held for another moment.
constexpr seconds kLeasePatience(10);
constexpr milliseconds kLeaseInterval(100);
/// Between TERM and KILL when nobody said how long.
constexpr milliseconds kGrace(3000);
constexpr milliseconds kNoGrace(0);
/// For a node that has said `done` or `failed` to leave by itself.
constexpr seconds kLeavePatience(10);
/// For the last messages to get away.
constexpr seconds kFlushPatience(2);
/// Different warnings about what a node or a peer sends.
constexpr std::size_t kMostWarnings = 32;

std::string Line(std::string message) { return std::move(message) + '\n'; }

class Agent {
 public:
  Agent(asio::io_context& io, AgentOptions options, GpuInventory& inventory)
      : io_(io),
        executor_(io.get_executor()),
        host_(std::move(options.host)),
        executor_jvm_(std::move(options.executor_jvm)),
        inventory_(inventory),
        task_(executor_, std::move(options.input), std::move(options.output)),
        log_(executor_, std::move(options.log)),
        signals_(executor_, SIGTERM, SIGINT),
        phase_timer_(executor_),
        watched_(executor_),
        node_said_all_(executor_) {
    Go("serve the node", Serve());
    Go("watch signals", WatchSignals());
  }

 private:
  // The way up: each step leaves a reason in `failed_step_` for the message if it fails.
  asio::awaitable<void> Serve();
  asio::awaitable<Status> ReadBootstrap();
  asio::awaitable<Status> Join();
  Status WatchTheExecutor();
  asio::awaitable<Status> TakeFromHost();
  asio::awaitable<Status> TakeGpus();
  asio::awaitable<Status> Connect();
  void SendRegister();
  asio::awaitable<void> FollowCoordinator();
  void OnCommand(const AgentCommand& command);

  void StartNode(const control::StartNode& start);
  Status StartNodeProcess(const control::StartNode& start);
  void StartTensorBoard();
  asio::awaitable<void> FollowNode();
  asio::awaitable<void> OnNodeMessage(NodeMessage message);
  asio::awaitable<void> OnNodeEnd(ExitStatus exit);

  /// Starts a coroutine whose end by an exception is the node's failure.
  void Go(std::string what, asio::awaitable<void> coroutine) {
    Spawn(executor_, what, std::move(coroutine),
          [this, what](const Status& failure) { Fail(what, failure.ToString()); });
  }

  // What else may end the node.
  asio::awaitable<void> FollowTask();
  asio::awaitable<void> WatchExecutor();
  bool ExecutorHasEnded();
  std::string ExecutorHasEndedText() const;
  void FailWithExecutor();
  asio::awaitable<void> WatchSignals();
  asio::awaitable<void> SendHeartbeats();
  void SendMetrics();
  void LimitPhase(std::chrono::nanoseconds patience, std::string step, std::string what);

  /// For what the coordinator knows already: tells only the launch task.
  void Enter(NodeState state, std::string detail);
  /// Tells the coordinator as well.
  void Report(NodeState state, std::string detail);
  void StopAsAsked(const Stop& stop);
  /// `lost`: as in FailureReport.
  void Fail(std::string step, std::string message, milliseconds grace = kGrace, bool lost = false);
  void TellFailure(std::string step, std::string message, bool lost = false);
  void TellFailure(FailureReport report);
  void LogUnknown(std::string_view from, const std::string& type);
  void WarnOnce(std::string warning);
  void End(milliseconds grace);
  void LeaveIfOver();
  asio::awaitable<void> Leave();
  bool NodeIsAlive() const { return node_ != nullptr && !node_over_; }
  bool TensorBoardIsAlive() const { return tensorboard_ != nullptr && !tensorboard_->ended(); }

  asio::io_context& io_;
  asio::any_io_executor executor_;
  const std::string host_;
  const Result<pid_t> executor_jvm_;
  GpuInventory& inventory_;

  LineChannel task_;
  ExecutorLog log_;
  asio::signal_set signals_;
  asio::steady_timer phase_timer_;
  asio::posix::stream_descriptor watched_;  // a pidfd

  AgentBootstrap bootstrap_;
  std::string payload_;
  std::string step_ = "read the bootstrap";  // what the agent is busy with on its way up
  std::optional<HeldPort> port_;
  int port_number_ = 0;
  std::optional<HeldPort> tensor_port_;
  int tensor_port_number_ = 0;
  std::optional<GpuLease> gpus_;
  std::unique_ptr<CoordinatorLink> link_;

  std::unique_ptr<SupervisedChild> node_;
  std::unique_ptr<LineChannel> node_lines_;
  std::unique_ptr<TensorBoard> tensorboard_;
  AsyncLatch node_said_all_;
  StateReport state_;
  Metrics metrics_;
  std::set<std::string> warnings_;  // that were logged

  bool registered_ = false;
  bool detached_ = false;    // the launch task has left as planned
  bool feed_ended_ = false;  // so that a node that starts late is draining at once
  bool stop_asked_ = false;  // by the coordinator
  bool node_done_ = false;   // the node has said so
  bool node_over_ = false;   // its process has ended and everything it said was heard
  bool failed_ = false;      // a failure was told; only the first is
  bool ending_ = false;
  bool leaving_ = false;
};

asio::awaitable<void> Agent::Serve() {
  LimitPhase(kBootstrapPatience, step_, "the launch task has not sent the whole bootstrap");
  Status ready = co_await ReadBootstrap();
  phase_timer_.cancel();
  if (ready.ok() && !ending_) {
    Go("follow the launch task", FollowTask());
    ready = co_await Join();
  }
  if (ending_) co_return;
  if (!ready.ok()) {
    Fail(step_, ready.ToString());
    co_return;
  }
  co_await FollowCoordinator();
}

asio::awaitable<Status> Agent::ReadBootstrap() {
  Result<std::optional<std::string>> line = co_await task_.ReadLine();
  if (!line.ok()) co_return line.status();
  if (!line->has_value()) {
    co_return Status(ErrorKind::kReconnect, "the launch task ended before it sent the bootstrap");
  }
  Result<LaunchMessage> message = ParseMessage<LaunchMessage>(**line);
  if (!message.ok()) co_return message.status();
  if (!std::holds_alternative<AgentBootstrap>(*message)) {
    co_return Status(ErrorKind::kBadInput, "the first message is no bootstrap");
  }
  bootstrap_ = std::get<AgentBootstrap>(std::move(*message));
  SetUpLogging(fmt::format("agent cluster={} node={} host={}", bootstrap_.cluster_id,
                           bootstrap_.node_id, host_),
               bootstrap_.log_level);
  if (bootstrap_.protocol != kProtocolVersion) {
    co_return Status(ErrorKind::kUnsupported,
                     fmt::format("the launch task speaks control protocol {}, this agent {}: "
                                 "install the same version of tfos everywhere",
                                 bootstrap_.protocol, kProtocolVersion));
  }
  if (bootstrap_.python.empty()) {
    co_return Status(ErrorKind::kBadInput, "the bootstrap names no program to run");
  }
  Result<std::string> payload =
      co_await task_.ReadRaw(static_cast<std::size_t>(bootstrap_.payload_bytes));
  if (!payload.ok()) co_return payload.status();
  payload_ = std::move(payload).value();
  co_return Status::Ok();
}

/// Watches the executor, takes what the node needs from the host, connects, registers.
asio::awaitable<Status> Agent::Join() {
  step_ = "watch the executor";
  Status watched = WatchTheExecutor();
  if (!watched.ok()) co_return watched;

  // Before connecting: the coordinator closes connections that don't register soon, and a cluster
  // that is just ending may hold the GPUs for longer than that.
  Enter(NodeState::kStarting, "taking ports and GPUs");
  const Status took = co_await TakeFromHost();
  if (ending_) co_return took;
  const std::string taking = step_;

  Enter(NodeState::kStarting, "connecting to the coordinator");
  step_ = "connect to the coordinator";
  Status connected = co_await Connect();
  if (!took.ok()) {
    // The first failure is the one to tell; a coordinator that is there gets the registration too.
    step_ = taking;
    co_return took;
  }
  if (!connected.ok() || ending_) co_return connected;

  step_ = "register";
  SendRegister();
  Enter(NodeState::kRegistered, "waiting for the other nodes");
  Go("send heartbeats", SendHeartbeats());
  // The coordinator has this deadline too and knows who is missing; it comes first.
  LimitPhase(bootstrap_.registration_timeout + bootstrap_.heartbeat_timeout, step_,
             "the coordinator has not started the cluster in time");
  co_return Status::Ok();
}

Status Agent::WatchTheExecutor() {
  auto watch = static_cast<pid_t>(bootstrap_.watch_pid);
  if (watch < 0) {
    if (!executor_jvm_.ok()) return executor_jvm_.status();
    watch = *executor_jvm_;
  }
  if (watch == 0) return Status::Ok();
  bootstrap_.watch_pid = watch;
  Result<UniqueFd> pidfd = OpenPidfd(watch);
  if (!pidfd.ok() && pidfd.status().kind() == ErrorKind::kReconnect) {
    return Status(ErrorKind::kReconnect, ExecutorHasEndedText());
  }
  if (!pidfd.ok()) return pidfd.status();
  watched_.assign(pidfd->Release());
  Go("watch the executor", WatchExecutor());
  return Status::Ok();
}

asio::awaitable<Status> Agent::Connect() {
  const Endpoint& coordinator = bootstrap_.coordinator;
  CoordinatorLink::Options options{.address = coordinator.address,
                                   .port = static_cast<std::uint16_t>(coordinator.port),
                                   .connect_timeout = kConnectPatience,
                                   .idle_timeout = bootstrap_.heartbeat_timeout};
  Result<std::unique_ptr<CoordinatorLink>> link =
      co_await CoordinatorLink::Connect(executor_, std::move(options), bootstrap_.token);
  if (!link.ok()) {
    co_return Status(
        ErrorKind::kReconnect,
        fmt::format("node {} on host {} can't reach the coordinator at {}:{}: {}; check the "
                    "firewall between the hosts and spark.tfos.coordinator.advertisedAddress",
                    bootstrap_.node_id, host_, coordinator.address, coordinator.port,
                    link.status().ToString()));
  }
  link_ = std::move(link).value();
  co_return Status::Ok();
}

asio::awaitable<Status> Agent::TakeFromHost() {
  step_ = "take ports";
  Result<PortRange> ports = PortRange::Parse(bootstrap_.ports);
  if (!ports.ok()) co_return ports.status();
  Result<HeldPort> port = HeldPort::Bind(*ports);
  if (!port.ok()) co_return port.status();
  port_number_ = port->port();
  port_ = std::move(port).value();
  Result<HeldPort> tensor_port = HeldPort::Bind(*ports);
  if (!tensor_port.ok()) co_return tensor_port.status();
  tensor_port_number_ = tensor_port->port();
  tensor_port_ = std::move(tensor_port).value();

  step_ = "take GPUs";
  co_return co_await TakeGpus();
}

asio::awaitable<Status> Agent::TakeGpus() {
  const GpuRequest& request = bootstrap_.gpus;
  std::vector<Gpu> inventory;
  if (request.count > 0 && request.assigned.empty()) {
    Result<std::vector<Gpu>> found =
        co_await inventory_.List(executor_, Deadline::After(kInventoryPatience));
    if (!found.ok()) co_return found.status();
    inventory = std::move(found).value();
  }
  const Deadline deadline = Deadline::After(kLeasePatience);
  asio::steady_timer timer(executor_);
  while (true) {
    Result<GpuLease> lease = GpuLease::Take(request, inventory);
    if (lease.ok()) {
      gpus_ = std::move(lease).value();
      co_return Status::Ok();
    }
    const bool later = lease.status().kind() == ErrorKind::kRetryLater;
    if (!later || deadline.passed() || ending_) co_return lease.status();
    timer.expires_after(kLeaseInterval);
    co_await timer.async_wait(kNoThrow);
  }
}

void Agent::SendRegister() {
  registered_ = true;
  if (bootstrap_.advertised_address.empty()) {
    bootstrap_.advertised_address = link_->local_address();
  }
  link_->Send(SerializeMessage(Register{
      .node_id = bootstrap_.node_id,
      .host = host_,
      .address = bootstrap_.advertised_address,
      .port = port_number_,
      .tensor_port = tensor_port_number_,
      .agent_pid = ::getpid(),
      .executor_id = bootstrap_.executor_id,
      .gpus = gpus_.has_value() ? gpus_->indices() : std::vector<std::string>(),
  }));
}

asio::awaitable<void> Agent::FollowCoordinator() {
  while (true) {
    Result<std::string> text = co_await link_->Read();
    if (ending_ || leaving_) co_return;
    if (!text.ok()) {
      const std::string lost =
          fmt::format("lost the coordinator at {}:{}: {}", bootstrap_.coordinator.address,
                      bootstrap_.coordinator.port, text.status().ToString());
      if (!stop_asked_) {
        Fail("follow the coordinator", lost);
      } else {
        LogWarning("{}", lost);
        End(kGrace);
      }
      co_return;
    }
    Result<AgentCommand> command = ParseMessage<AgentCommand>(*text);
    if (!command.ok()) {
      Fail("follow the coordinator", command.status().ToString());
      co_return;
    }
    OnCommand(*command);
  }
}

void Agent::OnCommand(const AgentCommand& command) {
  if (const auto* start = std::get_if<control::StartNode>(&command)) {
    StartNode(*start);
  } else if (const auto* ended = std::get_if<EndEpoch>(&command)) {
    if (NodeIsAlive()) node_lines_->Send(Line(SerializeMessage(*ended)));
  } else if (const auto* tickets = std::get_if<StepTickets>(&command)) {
    if (!NodeIsAlive()) return;
    node_lines_->SendLatest(
        fmt::format("{} {} {}", StepTickets::kType, tickets->queue, tickets->epoch),
        [tickets = *tickets] { return Line(SerializeMessage(tickets)); });
  } else if (std::holds_alternative<EndFeed>(command)) {
    feed_ended_ = true;
    if (!NodeIsAlive()) return;
    node_lines_->Send(Line(SerializeMessage(EndFeed{})));
    if (state_.state == NodeState::kRunning) Enter(NodeState::kDraining, "its feed has ended");
  } else if (const auto* stop = std::get_if<Stop>(&command)) {
    StopAsAsked(*stop);
  } else if (const auto* refused = std::get_if<Refused>(&command)) {
    Fail("register", "the coordinator refused this node: " + refused->message);
  } else if (const auto* unknown = std::get_if<UnknownMessage>(&command)) {
    LogUnknown("coordinator", unknown->type);
  }
}

void Agent::StartNode(const control::StartNode& start) {
  if (node_ != nullptr) {
    Fail("start the node", "the coordinator sent `start` twice");
    return;
  }
  phase_timer_.cancel();
  task_.Send(Line(SerializeMessage(NodesFormed{})));
  if (Status started = StartNodeProcess(start); !started.ok()) {
    Fail("start the node", started.ToString());
    return;
  }
  Report(NodeState::kRegistered, "starting its process");
  if (start.tensorboard) StartTensorBoard();
}

Status Agent::StartNodeProcess(const control::StartNode& start) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
    return Status::FromErrno(errno, "open a socket pair to the node");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  UniqueFd ours_too(::fcntl(ours.get(), F_DUPFD_CLOEXEC, 0));
  if (!ours_too.valid()) return Status::FromErrno(errno, "open a socket pair to the node");

  SubprocessOptions process{.argv = bootstrap_.python, .cwd = bootstrap_.cwd};
  process.environment = bootstrap_.environment;
  process.environment->push_back(fmt::format("TFOS_AGENT_FD={}", theirs.get()));
  process.keep_fds = {theirs.get(), port_->fd(), tensor_port_->fd()};
  const NodeBootstrap message{
      .cluster_id = bootstrap_.cluster_id,
      .token = bootstrap_.token,
      .node_id = bootstrap_.node_id,
      .executor_id = bootstrap_.executor_id,
      .job_name = start.job_name,
      .task_index = start.task_index,
      .cluster_spec = start.cluster_spec,
      .num_workers = start.num_workers,
      .nodes = start.nodes,
      .port = port_number_,
      .port_fd = port_->fd(),
      .tensor_port_fd = tensor_port_->fd(),
      .address = bootstrap_.advertised_address,
      .host = host_,
      .gpus = gpus_->indices(),
      .gpu_fraction = bootstrap_.gpus.fraction,
      .coordinator = bootstrap_.coordinator,
      .heartbeat_interval = bootstrap_.heartbeat_interval,
      .node = bootstrap_.node,
      .payload_bytes = static_cast<std::int64_t>(payload_.size()),
  };
  TFOS_ASSIGN_OR_RETURN(
      node_, SupervisedChild::Start(executor_, std::move(process), log_, [this](ExitStatus exit) {
        Go("end with the node", OnNodeEnd(exit));
      }));
  // The node holds the ports from here on, and only the node's own close is to free them.
  port_.reset();
  tensor_port_.reset();
  node_lines_ = std::make_unique<LineChannel>(executor_, std::move(ours), std::move(ours_too));
  node_lines_->Send(Line(SerializeMessage(message)));
  node_lines_->Send(std::move(payload_));
  if (feed_ended_) node_lines_->Send(Line(SerializeMessage(EndFeed{})));
  Go("follow the node", FollowNode());
  state_.pid = node_->pid();
  return Status::Ok();
}

/// A TensorBoard that fails is a pity, not a failure of the node.
void Agent::StartTensorBoard() {
  TensorBoard::Options options;
  options.argv = bootstrap_.tensorboard;
  options.cwd = bootstrap_.cwd;
  options.ports = bootstrap_.ports;
  options.address = link_->local_address();
  options.environment = bootstrap_.environment;
  Result<std::unique_ptr<TensorBoard>> started = TensorBoard::Start(
      executor_, std::move(options), log_,
      [this](TensorBoardProcess address) {
        state_.tensorboard = address;
        Report(state_.state, state_.detail);
      },
      [this](ExitStatus exit) {
        if (!ending_) LogWarning("TensorBoard {}", exit.Describe());
        state_.tensorboard.reset();
        if (!ending_) Report(state_.state, state_.detail);
        if (node_over_ && !ending_) End(kGrace);
        LeaveIfOver();
      });
  if (!started.ok()) {
    LogWarning("TensorBoard could not be started: {}", started.status().ToString());
    return;
  }
  tensorboard_ = std::move(started).value();
}

asio::awaitable<void> Agent::FollowNode() {
  while (true) {
    Result<std::optional<std::string>> line = co_await node_lines_->ReadLine();
    if (line.ok() && !line->has_value()) break;
    Result<NodeMessage> message =
        line.ok() ? ParseMessage<NodeMessage>(**line) : Result<NodeMessage>(line.status());
    if (!message.ok() && (!line.ok() || !IsJsonObject(**line))) {
      Fail("follow the node",
           "the node sent something other than messages: " + message.status().ToString());
      break;
    }
    if (!message.ok()) {
      WarnOnce("a bad message of the node is ignored: " + message.status().ToString());
      continue;
    }
    co_await OnNodeMessage(std::move(*message));
  }
  node_said_all_.Open();
}

asio::awaitable<void> Agent::OnNodeMessage(NodeMessage message) {
  if (auto* change = std::get_if<StateReport>(&message)) {
    if (change->feed.has_value()) state_.feed = change->feed;
    // What the node does before it runs is no state of its own for the others.
    const bool runs = change->state == NodeState::kRunning;
    Report(runs ? NodeState::kRunning : NodeState::kRegistered, change->detail);
    if (runs && feed_ended_) Enter(NodeState::kDraining, "its feed has ended");
  } else if (auto* metrics = std::get_if<MetricsReport>(&message)) {
    for (const std::string& dropped : metrics->metrics.dropped) {
      WarnOnce("the program reported something that is left out: " + dropped);
    }
    metrics_ = std::move(metrics->metrics.kept);
  } else if (const auto* steps = std::get_if<StepReport>(&message)) {
    link_->Send(SerializeMessage(*steps));
  } else if (std::holds_alternative<FeedTerminated>(message)) {
    link_->Send(SerializeMessage(FeedTerminated{}));
  } else if (auto* failed = std::get_if<FailureMessage>(&message)) {
    // What the node printed before it sent this belongs to the last lines of its log.
    co_await node_->TakeWritten();
    if (stop_asked_) {
      LogInfo("the node failed as it was being stopped: {}", failed->failure.message);
    } else {
      TellFailure(std::move(failed->failure));
    }
    node_->ExpectEnd(kLeavePatience, kGrace);
  } else if (std::holds_alternative<Done>(message)) {
    node_done_ = true;
    node_->ExpectEnd(kLeavePatience, kGrace);
  } else if (const auto* unknown = std::get_if<UnknownMessage>(&message)) {
    LogUnknown("node", unknown->type);
  }
}

asio::awaitable<void> Agent::OnNodeEnd(ExitStatus exit) {
  // Whoever left the node's group may hold the socket open for ever.
  co_await node_said_all_.Wait(Deadline::After(seconds(1)));
  node_over_ = true;
  if (node_done_ && !exit.success()) {
    LogWarning("the node {} after its program had returned", exit.Describe());
  }
  if (!failed_ && (node_done_ || stop_asked_)) {
    state_.pid = 0;
    SendMetrics();
    link_->Send(SerializeMessage(Done{}));
    Enter(NodeState::kDone, "");
  } else if (!failed_) {
    TellFailure("run the node", "the node's process " + exit.Describe(),
                // Any other signal came of the program itself, and would come again elsewhere.
                exit.signalled && (exit.code == SIGKILL || exit.code == SIGTERM));
  }
  if (failed_ || stop_asked_ || ending_ || !TensorBoardIsAlive()) {
    End(kGrace);
  } else {
    LogInfo("the node is done; its TensorBoard stays until the cluster ends");
    // The Spark task must not wait for that.
    detached_ = true;
    co_await task_.Flush(Deadline::After(kFlushPatience));
    task_.Close();
  }
}

asio::awaitable<void> Agent::FollowTask() {
  while (true) {
    Result<std::optional<std::string>> line = co_await task_.ReadLine();
    if (line.ok() && !line->has_value()) break;
    Result<LaunchMessage> message =
        line.ok() ? ParseMessage<LaunchMessage>(**line) : Result<LaunchMessage>(line.status());
    if (!message.ok()) {
      if (!ending_ && !detached_) {
        Fail("follow the launch task",
             "the launch task sent a bad message: " + message.status().ToString());
      }
      co_return;
    }
    if (std::holds_alternative<Detach>(*message)) detached_ = true;
    if (const auto* unknown = std::get_if<UnknownMessage>(&*message)) {
      LogUnknown("launch task", unknown->type);
    }
  }
  if (detached_ || node_over_ || ending_) co_return;
  if (stop_asked_) {
    End(kGrace);
  } else if (ExecutorHasEnded()) {
    FailWithExecutor();  // The task died of that.
  } else {
    Fail("follow the launch task",
         "the Spark task that had started the node was killed or has died");
  }
}

asio::awaitable<void> Agent::WatchExecutor() {
  auto [error] = co_await watched_.async_wait(asio::posix::stream_descriptor::wait_read, kNoThrow);
  if (!error) FailWithExecutor();
}

bool Agent::ExecutorHasEnded() {
  if (!watched_.is_open()) return false;
  pollfd executor{.fd = watched_.native_handle(), .events = POLLIN, .revents = 0};
  return ::poll(&executor, 1, 0) > 0;
}

void Agent::FailWithExecutor() {
  Fail("watch the executor", ExecutorHasEndedText(), kNoGrace, /*lost=*/true);
}

std::string Agent::ExecutorHasEndedText() const {
  return fmt::format("the Spark executor (process {}) has ended", bootstrap_.watch_pid);
}

asio::awaitable<void> Agent::WatchSignals() {
  auto [error, signal] = co_await signals_.async_wait(kNoThrow);
  if (error) co_return;
  Fail("run the agent", fmt::format("the agent was told to end by signal {}", signal), kGrace,
       /*lost=*/true);
}

asio::awaitable<void> Agent::SendHeartbeats() {
  asio::steady_timer timer(executor_);
  while (!leaving_) {
    timer.expires_after(bootstrap_.heartbeat_interval);
    co_await timer.async_wait(kNoThrow);
    SendMetrics();
  }
}

/// A coordinator that stands still finds one heartbeat with the latest metrics.
void Agent::SendMetrics() {
  link_->SendLatest(Heartbeat::kType,
                    [this] { return SerializeMessage(Heartbeat{.metrics = metrics_}); });
}

void Agent::LimitPhase(std::chrono::nanoseconds patience, std::string step, std::string what) {
  phase_timer_.expires_after(patience);
  phase_timer_.async_wait([this, step = std::move(step),
                           what = std::move(what)](const boost::system::error_code& cancelled) {
    if (!cancelled) Fail(step, what);
  });
}

void Agent::Enter(NodeState state, std::string detail) {
  state_.state = state;
  state_.detail = std::move(detail);
  StateReport brief;
  brief.state = state;
  brief.detail = state_.detail;
  task_.Send(Line(SerializeMessage(brief)));
}

void Agent::Report(NodeState state, std::string detail) {
  Enter(state, std::move(detail));
  link_->Send(SerializeMessage(state_));
}

void Agent::StopAsAsked(const Stop& stop) {
  LogInfo("told to stop: {}", stop.reason);
  stop_asked_ = true;
  if (NodeIsAlive()) {
    node_lines_->Send(Line(SerializeMessage(stop)));
    if (state_.state == NodeState::kRunning) Enter(NodeState::kDraining, stop.reason);
  }
  End(stop.grace);
}

void Agent::Fail(std::string step, std::string message, milliseconds grace, bool lost) {
  TellFailure(std::move(step), std::move(message), lost);
  End(grace);
}

void Agent::TellFailure(std::string step, std::string message, bool lost) {
  FailureReport report;
  report.lost = lost;
  report.step = std::move(step);
  report.message = std::move(message);
  TellFailure(std::move(report));
}

/// Tells the first failure to the coordinator and the launch task; later ones follow from it.
void Agent::TellFailure(FailureReport report) {
  Log(failed_ ? LogLevel::kInfo : LogLevel::kError, "failed to {}: {}", report.step,
      report.message);
  if (failed_ || node_done_) return;
  failed_ = true;
  if (node_ != nullptr) report.log_tail = node_->tail().Lines();
  const std::string text = SerializeMessage(FailureMessage{std::move(report)});
  if (link_ != nullptr) {
    // A node that fails before it is registered still has to say which it is.
    if (!registered_) SendRegister();
    link_->Send(text);
  }
  task_.Send(Line(text));
}

void Agent::LogUnknown(std::string_view from, const std::string& type) {
  WarnOnce(
      fmt::format("messages of type '{}' from the {} are ignored: this version does not know "
                  "them",
                  type, from));
}

/// What a program does wrong it does again and again; the log says it once.
void Agent::WarnOnce(std::string warning) {
  if (warnings_.size() == kMostWarnings || !warnings_.insert(warning).second) return;
  LogWarning("{}", warning);
}

/// Ends everything that was started; the agent leaves once it is gone. A later call may shorten the
/// grace.
void Agent::End(milliseconds grace) {
  ending_ = true;
  phase_timer_.cancel();
  if (NodeIsAlive()) node_->Stop(grace);
  if (TensorBoardIsAlive()) tensorboard_->Stop(grace);
  LeaveIfOver();
}

void Agent::LeaveIfOver() {
  if (!ending_ || leaving_ || NodeIsAlive() || TensorBoardIsAlive()) return;
  leaving_ = true;
  Spawn(executor_, "leave", Leave(), [this](const Status&) { io_.stop(); });
}

asio::awaitable<void> Agent::Leave() {
  const Deadline deadline = Deadline::After(kFlushPatience);
  if (link_ != nullptr) co_await link_->Close(deadline);
  co_await task_.Flush(deadline);
  co_await log_.Flush(deadline);
  io_.stop();
}

}  // namespace

void RunAgent(AgentOptions options, GpuInventory& inventory) {
  asio::io_context io(1);
  Agent agent(io, std::move(options), inventory);
  io.run();
}

}  // namespace tfos::control
