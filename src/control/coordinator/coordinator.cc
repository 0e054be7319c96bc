#include "control/coordinator/coordinator.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "control/coordinator/agent_table.h"
#include "control/coordinator/cluster_presence.h"
#include "control/coordinator/cluster_start.h"
#include "control/coordinator/history/run_record.h"
#include "control/coordinator/operations.h"
#include "control/coordinator/roster/roles.h"
#include "control/coordinator/roster/roster.h"
#include "control/coordinator/status_pages.h"
#include "control/host/address.h"
#include "control/host/held_port.h"
#include "control/link/async_latch.h"
#include "control/link/line_channel.h"
#include "control/link/server/control_server.h"
#include "control/link/server/page_keys.h"
#include "control/link/spawn.h"
#include "control/messages/agent_messages.h"
#include "control/messages/driver_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/parts/shared_messages.h"
#include "net/handshake/acceptor.h"
#include "net/handshake/protocol.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::seconds kEndAfterGrace(5);  // for agents to end, once the driver has
constexpr std::chrono::seconds kLastWords(2);
constexpr std::size_t kMaxUnknownTypes = 16;  // that are logged

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
// Clang 16 does not deduce an aggregate's arguments by itself.
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

class Coordinator final : public ControlService {
 public:
  Coordinator(const asio::any_io_executor& executor, CoordinatorOptions options)
      : executor_(executor),
        set_up_logging_(std::move(options.set_up_logging)),
        clock_(*options.clock),
        presence_(std::move(options.runtime_folders)),
        driver_(executor, std::move(options.input), std::move(options.output)),
        driver_process_(executor),
        heartbeat_timer_(executor),
        cause_timer_(executor),
        finished_(executor) {
    if (options.driver.valid()) driver_process_.assign(options.driver.Release());
  }

  /// The process's exit code.
  asio::awaitable<int> Run() {
    if (driver_process_.is_open()) {
      Spawn(executor_, "watch the driver", WatchDriver(), [](const Status&) {});
    }
    Result<std::optional<std::string>> line = co_await driver_.ReadLine();
    if (!line.ok()) co_return co_await Refuse(line.status());
    if (!line->has_value()) co_return 1;  // nobody is there to be told
    Result<StartCluster> start = ParseStart(**line);
    if (!start.ok()) co_return co_await Refuse(start.status());
    if (Status status = Listen(*start); !status.ok()) co_return co_await Refuse(status);

    Spawn(executor_, "watch the nodes", Watch(start->heartbeat_interval),
          [this](const Status& failure) { FailByItself("watch the nodes", failure); });
    const std::optional<std::string> why = co_await ObeyDriver();
    if (why.has_value()) {
      LogError("{}: stopping all nodes", *why);
      Apply(roster_->StopAll({.reason = *why, .grace = start->stop_grace}, Now()));
      if (!co_await finished_.Wait(Deadline::After(start->stop_grace + kEndAfterGrace))) {
        LogError("some agents did not stop in time; they end with their connections");
      }
    } else {
      pages_.BeginEnd();
      co_await pages_.ShowEnd();
    }
    server_->Close();
    co_await driver_.Flush(Deadline::After(kLastWords));
    co_return why.has_value() ? 1 : 0;
  }

  asio::awaitable<HttpAnswer> Get(std::string target, std::string query, Asker asker) override {
    if (target == PageKeys::kOutput) return operations_.Output(std::move(query), asker);
    if (target == PageKeys::kStacks) return operations_.GentleStacks(std::move(query), asker);
    return pages_.Get(std::move(target), std::move(query));
  }

  asio::awaitable<HttpAnswer> Post(std::string target, std::string query) override {
    return operations_.Post(std::move(target), std::move(query));
  }

  Status OnMessage(AgentConnection& connection, std::string_view text) override {
    TFOS_ASSIGN_OR_RETURN(AgentMessage message, ParseMessage<AgentMessage>(text));
    // A copy of a node's launch task has nothing to say until Spark ends it.
    if (agents_.StandsBy(connection)) return Status::Ok();
    const bool is_known = agents_.HasRegistered(connection);
    if (auto* registration = std::get_if<Register>(&message); registration != nullptr) {
      if (is_known) return Status(ErrorKind::kBadInput, "the agent registers a second time");
      return Admit(connection, *registration);
    }
    if (!is_known) {
      return Status(ErrorKind::kBadInput, "the agent's first message is not 'register'");
    }
    // One that is lost and has another in its place has nothing more to say.
    const std::optional<int> node_id = agents_.NodeItSpeaksFor(connection);
    if (node_id.has_value()) Apply(Handle(*node_id, message));
    return Status::Ok();
  }

  std::optional<int> AskForTunnel(int number) override {
    const std::optional<int> node_id = pages_.NodeWithTensorBoard();
    if (node_id.has_value()) agents_.Send(*node_id, OpenTunnel{number});
    return node_id;
  }

  void OnClosed(AgentConnection& connection) override {
    const std::optional<int> node_id = agents_.Remove(connection);
    if (!node_id.has_value()) return;
    operations_.OnGone(*node_id);
    Apply(roster_->ConnectionLost(*node_id, Now()));
  }

 private:
  Clock::TimePoint Now() const { return clock_.Now(); }

  asio::awaitable<int> Refuse(const Status& status) {
    LogError("the coordinator can't start: {}", status.ToString());
    Tell(Fatal{status.ToString()});
    co_await driver_.Flush(Deadline::After(kLastWords));
    co_return 1;
  }

  Status Listen(const StartCluster& start) {
    if (set_up_logging_) set_up_logging_(start.cluster_id, start.log_level);
    TFOS_ASSIGN_OR_RETURN(std::vector<Role> roles, AssignRoles(start.roles, start.service_jobs));
    TFOS_ASSIGN_OR_RETURN(const PortRange ports, PortRange::Parse(start.ports));
    TFOS_ASSIGN_OR_RETURN(const net::Encryption encryption, net::EncryptionFromWord(start.encrypt));
    TFOS_ASSIGN_OR_RETURN(
        server_, ControlServer::Listen(
                     executor_,
                     {.bind_address = start.bind_address,
                      .ports = ports,
                      .token = start.token,
                      .scrape_token = start.scrape_token,
                      .encryption = encryption,
                      // All agents of a cluster may connect at the same moment.
                      .max_handshakes = std::max(net::Acceptor::AsManyAsDescriptorsAllow(),
                                                 ControlServer::kMaxStrangers + roles.size())},
                     *this));
    const Endpoint endpoint = {
        .address = AdvertisedAddress(start.advertised_address, start.bind_address),
        .port = server_->port()};
    record_.emplace(start.cluster_id, roles.size(), start.heartbeat_interval, Now());
    roster_.emplace(RosterOptionsOf(start, std::move(roles), endpoint), Now());
    LogInfo("listening on {}", endpoint.ToString());
    presence_.Begin(start, server_->port(), Now());
    Tell(Listening{endpoint});
    // From the first moment on the driver can name the nodes that are missing.
    for (NodeInfo& node : roster_->Nodes(Now())) Tell(NodeChanged{std::move(node)});
    return Status::Ok();
  }

  asio::awaitable<void> WatchDriver() {
    auto [error] =
        co_await driver_process_.async_wait(asio::posix::stream_descriptor::wait_read, kNoThrow);
    if (!error) driver_.EndInputOfDeadWriter();
  }

  // Obeys the driver until it asks to exit. Otherwise returns why nothing more can come from it.
  asio::awaitable<std::optional<std::string>> ObeyDriver() {
    while (true) {
      Result<std::optional<std::string>> line = co_await driver_.ReadLine();
      if (!line.ok()) {
        co_return fmt::format("can't read from the driver: {}", line.status().ToString());
      }
      if (!line->has_value()) co_return "the driver died";
      Result<DriverMessage> message = ParseMessage<DriverMessage>(**line);
      if (!message.ok()) {
        co_return fmt::format("the driver sent a bad message: {}", message.status().ToString());
      }
      if (std::holds_alternative<Exit>(*message)) co_return std::nullopt;
      Apply(Handle(*message));
    }
  }

  // Looks at the deadlines and passes metrics on, once a heartbeat interval.
  asio::awaitable<void> Watch(milliseconds interval) {
    while (true) {
      heartbeat_timer_.expires_after(interval);
      auto [cancelled] = co_await heartbeat_timer_.async_wait(kNoThrow);
      if (cancelled) co_return;
      Apply(roster_->Tick(Now()));
      record_->Sample(Now());
      record_->Measure(roster_->Views(), Now());
      presence_.Check(Now());
      TellChangedMetrics();
    }
  }

  // Taken when the driver takes them: one that stands still finds the latest values, once. The
  // progress was measured before, so it may be news without a change of metrics, too.
  void TellChangedMetrics() {
    if (!registrations_before_metrics_) registrations_before_metrics_ = registrations_;
    driver_.SendLatest(MetricsChanged::kType,
                       [this, news = node_news_]() -> std::optional<std::string> {
                         // The driver would take those of a process of which it hears after this
                         // for those of the one before. The next ones come after an interval.
                         const auto before = std::exchange(registrations_before_metrics_, {});
                         if (before != registrations_) return std::nullopt;
                         std::vector<NodeMetrics> metrics = roster_->TakeChangedMetrics();
                         if (metrics.empty() && told_progress_ == record_->progress())
                           return std::nullopt;
                         // The driver forgets what nodes do when it hears of one after this.
                         if (news == node_news_) told_progress_ = record_->progress();
                         return SerializeMessage(MetricsChanged{.nodes = std::move(metrics),
                                                                .progress = record_->progress(),
                                                                .rates = record_->RatesOfFeed()}) +
                                "\n";
                       });
  }

  // A failure of the coordinator's own, which ends the cluster.
  void FailByItself(std::string step, const Status& status) {
    DriverFailure failure;
    failure.report.step = std::move(step);
    failure.report.message = status.ToString();
    Apply(roster_->FailFromDriver(failure, Now()));
  }

  Effects Handle(const DriverMessage& message) {
    record_->Take(message, Now());
    return std::visit(
        Overloaded{
            [&](const EndEpoch& ended) { return roster_->EndEpoch(ended, Now()); },
            [&](const EndJob& ended) { return roster_->EndJob(ended); },
            [&](const AbandonEpoch& abandoned) { return roster_->AbandonEpoch(abandoned); },
            [&](const AskDrained& asked) { return roster_->AskDrained(asked); },
            [&](const BeginEpoch& begun) { return roster_->BeginEpoch(begun, Now()); },
            [&](const EndFeed& ended) { return roster_->EndFeed(ended, Now()); },
            [&](const NodeLeaving& leaving) { return roster_->Leave(leaving, Now()); },
            [&](const Stop& stop) { return roster_->StopAll(stop, Now()); },
            [&](const DriverFailure& failure) { return roster_->FailFromDriver(failure, Now()); },
            [&](const UnknownMessage& unknown) { return LogUnknown(unknown); },
            [&](const StartCluster&) {
              LogWarning("ignoring a second 'start'");
              return Effects();
            },
            [&](const StopAsked& asked) {
              if (!roster_->failure().has_value() && !roster_->finished()) Announce(asked);
              return Effects();
            },
            // The record has them.
            [&](const Activity&) { return Effects(); },
            [&](const Exit&) { return Effects(); },
        },
        message);
  }

  Effects Handle(int node_id, const AgentMessage& message) {
    return std::visit(
        Overloaded{
            [&](const StateReport& report) { return roster_->SetState(node_id, report, Now()); },
            [&](const Heartbeat& heartbeat) {
              record_->Update(node_id, heartbeat.metrics);
              return roster_->RecordHeartbeat(node_id, heartbeat, Now());
            },
            [&](const StepReport& report) { return roster_->RecordSteps(node_id, report, Now()); },
            [&](const GroupReady& ready) { return roster_->RecordReady(node_id, ready, Now()); },
            [&](const FeedTerminated&) { return roster_->FeedTerminated(node_id, Now()); },
            [&](const FailureMessage& failed) {
              return roster_->Fail(node_id, failed.failure, Now());
            },
            [&](const Done&) { return roster_->Finish(node_id, Now()); },
            [&](const Answer& answer) {
              operations_.Take(node_id, answer);
              return Effects();
            },
            [&](const UnknownMessage& unknown) { return LogUnknown(unknown); },
            [&](const Register&) { return Effects(); },
        },
        message);
  }

  Effects LogUnknown(const UnknownMessage& unknown) {
    if (unknown_types_.size() < kMaxUnknownTypes && unknown_types_.insert(unknown.type).second) {
      LogWarning("ignoring messages of the unknown type '{}'", unknown.type);
    }
    return {};
  }

  Status Admit(AgentConnection& connection, const Register& registration) {
    Result<Effects> effects = Status(
        ErrorKind::kBadInput, fmt::format("its handshake was node {}'s", connection.node_id()));
    const Clock::TimePoint now = Now();
    if (registration.node_id == connection.node_id()) {
      effects = roster_->Register(registration, now);
    }
    if (!effects.ok() && registration.node_id == connection.node_id() &&
        roster_->IsTaken(registration.node_id)) {
      LogInfo("node {}: another attempt on {} stands by: {}", registration.node_id,
              registration.host, effects.status().message());
      agents_.LetStandBy(connection, registration.node_id, effects.status().message());
      return Status::Ok();
    }
    if (!effects.ok()) {
      if (registration.node_id == connection.node_id()) Apply(roster_->Refused(registration, now));
      connection.Send({SerializeMessage(Refused{effects.status().message()})});
      return effects.status().Annotate(
          fmt::format("node {} on {} can't register", registration.node_id, registration.host));
    }
    ++registrations_;
    agents_.Take(connection, registration.node_id);
    operations_.OnCame(registration.node_id);
    Apply(*std::move(effects));
    return Status::Ok();
  }

  void Apply(Effects effects) {
    for (Effect& effect : effects) {
      std::visit(Overloaded{
                     [&](const TellDriver& tell) { Announce(tell.event); },
                     [&](const TellAgent& tell) { agents_.Send(tell.node_id, tell.command); },
                     [&](const PublishStart& start) { SendStart(start.node_id); },
                     [&](const Disconnect& lost) { agents_.Disconnect(lost.node_id); },
                     [&](const AskStacks& ask) {
                       // Without them the node is ended all the same.
                       Spawn(executor_, "ask for stacks", TellStacks(ask), [](const Status&) {});
                     },
                 },
                 effect);
    }
    if (roster_->held_back_until() && !awaits_cause_) {
      Spawn(executor_, "wait for the cause of a failure", AwaitCause(), [](const Status&) {});
    }
  }

  // A heartbeat interval may be longer than a failure is held back.
  asio::awaitable<void> AwaitCause() {
    awaits_cause_ = true;
    while (const auto until = roster_->held_back_until()) {
      cause_timer_.expires_after(*until - Now());
      auto [cancelled] = co_await cause_timer_.async_wait(kNoThrow);
      if (cancelled) co_return;
      Apply(roster_->Tick(Now()));
    }
    awaits_cause_ = false;
  }

  // Where a node stands that makes no steps. It may be ended then, so the log has it, too.
  asio::awaitable<void> TellStacks(AskStacks ask) {
    std::string stacks = co_await operations_.StacksOf(ask.node_id);
    LogWarning("node={} makes no steps. It stands here:\n{}", ask.node_id, stacks);
    roster_->TakeStacks(ask.node_id, ask.number, std::move(stacks));
  }

  void Announce(const CoordinatorEvent& event) {
    record_->Take(event, Now());
    std::visit(Overloaded{
                   [&](const NodeChanged& changed) {
                     told_progress_.reset();
                     ++node_news_;
                     LogNode(changed.node);
                     agents_.Dismiss(changed.node);
                   },
                   [&](const ClusterFormed& formed) {
                     const auto missing =
                         std::ranges::count(formed.nodes, NodeState::kExpected, &NodeInfo::state);
                     LogInfo("formed: {} nodes are there, and {} are not yet",
                             formed.nodes.size() - static_cast<std::size_t>(missing), missing);
                   },
                   [&](const ClusterFailed& failed) {
                     LogFailure(failed.failure);
                     pages_.TellFailure();
                   },
                   [&](const Finished&) {
                     LogInfo("every node has ended");
                     // The driver may leave at once, and wants to know how it ended.
                     record_->Measure(roster_->Views(), Now());
                     TellChangedMetrics();
                     pages_.BeginEnd();
                     finished_.Open();
                   },
                   [](const auto&) {},
               },
               event);
    std::visit(
        [this](const auto& message) {
          using Message = std::decay_t<decltype(message)>;
          if constexpr (!std::is_same_v<Message, UnknownMessage>) Tell(message);
        },
        event);
  }

  static void LogNode(const NodeInfo& node) {
    LogInfo("node={} role={}:{} host={}: {}{}{}", node.node_id, node.job_name, node.task_index,
            node.host, NodeStateName(node.state), node.detail.empty() ? "" : ", ", node.detail);
  }

  static void LogFailure(const Failure& failure) {
    const FailureReport& report = failure.report;
    if (failure.node_id < 0) {
      LogError("failed: {}: {}", report.step, report.message);
    } else {
      LogError("{}:{} failed to {}: {}", failure.job_name, failure.task_index, report.step,
               report.message);
    }
  }

  template <typename Message>
  void Tell(const Message& message) {
    driver_.Send(SerializeMessage(message) + "\n");
  }

  void SendStart(std::optional<int> only) {
    const auto shared =
        std::make_shared<const std::string>(SerializeStartTail(roster_->SharedStart(Now())));
    for (int node_id = 0; node_id < static_cast<int>(roster_->node_count()); ++node_id) {
      if (only && node_id != *only) continue;
      agents_.SendStart(node_id, SerializeStartHead(roster_->Start(node_id)), shared);
    }
  }

  asio::any_io_executor executor_;
  std::function<void(const std::string&, const std::string&)> set_up_logging_;
  const Clock& clock_;
  ClusterPresence presence_;
  LineChannel driver_;
  asio::posix::stream_descriptor driver_process_;  // a pidfd, or not open
  asio::steady_timer heartbeat_timer_;
  asio::steady_timer cause_timer_;
  bool awaits_cause_ = false;
  AsyncLatch finished_;
  AgentTable agents_;
  std::optional<Roster> roster_;     // from `start` on, as is server_
  std::optional<RunRecord> record_;  // from `start` on, too
  StatusPages pages_{executor_, clock_, roster_, record_};
  Operations operations_{
      executor_,
      roster_,
      {.to_agent = [this](int node_id,
                          const Question& question) { return agents_.Send(node_id, question); },
       .to_driver = [this](const StopAsked& asked) { Announce(asked); }}};
  std::unique_ptr<ControlServer> server_;
  std::set<std::string> unknown_types_;
  std::optional<RunProgress> told_progress_;                   // as the driver knows it
  std::uint64_t node_news_ = 0;                                // that the driver was told
  std::uint64_t registrations_ = 0;                            // that were taken
  std::optional<std::uint64_t> registrations_before_metrics_;  // those that wait for the driver
};

}  // namespace

int RunCoordinator(CoordinatorOptions options) {
  // Destroyed last: the coroutines that it still holds then touch nothing of the coordinator.
  asio::io_context context(1);
  int exit_code = 1;
  Coordinator coordinator(context.get_executor(), std::move(options));
  asio::co_spawn(context, coordinator.Run(), [&](std::exception_ptr error, int code) {
    // Nothing of ours throws; out of memory may.
    if (error != nullptr) LogError("the coordinator stops because of an exception");
    exit_code = error == nullptr ? code : 1;
    context.stop();
  });
  context.run();
  return exit_code;
}

}  // namespace tfos::control
