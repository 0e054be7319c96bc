// What agents say to the coordinator after their handshake, and the driver in between, against the
// membership state machine. The input is a script, a line for each thing that happens: `0{...}` is
// what the agent of node 0 says, `x0` the end of its connection, `d{...}` what the driver says, and
// `t4` lets 10^4 ms pass. A first line `e` makes the cluster elastic; with `l` other nodes may come
// in place of lost ones, too. Whatever they say, what goes out is what the other ends can read,
// there is one failure and one end at most, and generations go forward.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/logging.h"
#include "control/coordinator/metrics_text.h"
#include "control/coordinator/roster/node_words.h"
#include "control/coordinator/roster/roster.h"
#include "control/messages/agent_messages.h"
#include "control/messages/driver_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/status_messages.h"

namespace {

using namespace tfos;           // NOLINT(google-build-using-namespace)
using namespace tfos::control;  // NOLINT(google-build-using-namespace)

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

/// What agents and driver are sent must be readable there.
template <typename Readers, typename Message>
void CheckReadable(const Message& message) {
  if constexpr (!std::is_same_v<Message, UnknownMessage>) {
    const std::string text = SerializeMessage(message);
    if (text.size() <= kMaxMessageBytes && !ParseMessage<Readers>(text).ok()) std::abort();
  }
}

/// Whom a cluster bears the loss of.
enum class Losses { kOneFedNode, kElastic, kElasticWithLateNodes, kReturningServer };

class Coordinator {
 public:
  explicit Coordinator(Losses losses) : roster_(Options(losses), now_) {}

  void Happens(std::string_view line) {
    if (line.empty()) return;
    const char what = line[0];
    const std::string_view rest = line.substr(1);
    if (what >= '0' && what <= '3') {
      AgentSays(what - '0', rest);
    } else if (what == 'x' && !rest.empty() && registered_.erase(rest[0] - '0') > 0) {
      Apply(roster_.ConnectionLost(rest[0] - '0', now_));
    } else if (what == 'd') {
      DriverSays(rest);
    } else if (what == 't' && !rest.empty() && rest[0] >= '0' && rest[0] <= '6') {
      auto passed = std::chrono::milliseconds(1);
      for (char left = rest[0]; left > '0'; --left) passed *= 10;
      now_ += passed;
      Apply(roster_.Tick(now_));
    }
    Show();
  }

 private:
  static RosterOptions Options(Losses losses) {
    RosterOptions options{.cluster_id = "fuzz",
                          .roles = {{.job_name = "ps", .task_index = 0, .service = true},
                                    {.job_name = "chief", .task_index = 0},
                                    {.job_name = "worker", .task_index = 0},
                                    {.job_name = "worker", .task_index = 1}},
                          .tensorboard_node = 1,
                          .coordinator_address = "host:1"};
    if (losses == Losses::kReturningServer) {
      options.returning_nodes = 1;
      options.min_nodes_timeout = std::chrono::seconds(60);
    }
    if (losses == Losses::kOneFedNode || losses == Losses::kReturningServer) {
      options.max_lost_nodes = 1;
      return options;
    }
    options.min_nodes = 2;
    options.late_nodes = losses == Losses::kElasticWithLateNodes;
    if (options.late_nodes) {
      options.min_nodes_timeout = std::chrono::seconds(60);
      options.max_losses_of_host = 1;
      options.step_timeout = std::chrono::seconds(30);
    }
    return options;
  }

  void AgentSays(int node_id, std::string_view text) {
    const auto message = ParseMessage<AgentMessage>(text);
    if (!message.ok()) return;
    if (!registered_.contains(node_id)) {
      const auto* const registration = std::get_if<Register>(&*message);
      // Its handshake has proved which node's it is.
      if (registration == nullptr || registration->node_id != node_id) return;
      auto taken = roster_.Register(*registration, now_);
      if (!taken.ok()) {
        Apply(roster_.Refused(*registration, now_));
        return;
      }
      registered_.insert(node_id);
      Apply(*std::move(taken));
      return;
    }
    Apply(std::visit(
        Overloaded{
            [&](const StateReport& report) { return roster_.SetState(node_id, report, now_); },
            [&](const Heartbeat& heartbeat) {
              return roster_.RecordHeartbeat(node_id, heartbeat, now_);
            },
            [&](const StepReport& report) { return roster_.RecordSteps(node_id, report, now_); },
            [&](const GroupReady& ready) { return roster_.RecordReady(node_id, ready, now_); },
            [&](const FeedTerminated&) { return roster_.FeedTerminated(node_id, now_); },
            [&](const FailureMessage& failed) {
              return roster_.Fail(node_id, failed.failure, now_);
            },
            [&](const Done&) { return roster_.Finish(node_id, now_); },
            [&](const Answer&) { return Effects(); },
            [&](const UnknownMessage&) { return Effects(); },
            [&](const Register&) { return Effects(); },
        },
        *message));
  }

  void DriverSays(std::string_view text) {
    const auto message = ParseMessage<DriverMessage>(text);
    if (!message.ok()) return;
    Apply(std::visit(
        Overloaded{
            [&](const EndEpoch& ended) { return roster_.EndEpoch(ended, now_); },
            [&](const EndJob& ended) { return roster_.EndJob(ended); },
            [&](const AbandonEpoch& abandoned) { return roster_.AbandonEpoch(abandoned); },
            [&](const AskDrained& asked) { return roster_.AskDrained(asked); },
            [&](const BeginEpoch& begun) { return roster_.BeginEpoch(begun, now_); },
            [&](const EndFeed& ended) { return roster_.EndFeed(ended, now_); },
            [&](const NodeLeaving& leaving) { return roster_.Leave(leaving, now_); },
            [&](const Stop& stop) { return roster_.StopAll(stop, now_); },
            [&](const DriverFailure& failure) { return roster_.FailFromDriver(failure, now_); },
            [&](const auto&) { return Effects(); },
        },
        *message));
  }

  void Apply(const Effects& effects) {
    for (const Effect& effect : effects) {
      std::visit(Overloaded{
                     [&](const TellDriver& tell) { Told(tell.event); },
                     [&](const TellAgent& tell) {
                       std::visit([](const auto& one) { CheckReadable<AgentCommand>(one); },
                                  tell.command);
                       if (const auto* group = std::get_if<FormedGroup>(&tell.command)) {
                         CheckGroup(tell.node_id, *group);
                       }
                     },
                     [&](const PublishStart&) { CheckStarts(); },
                     [&](const Disconnect&) {},
                     [&](const AskStacks& ask) {
                       roster_.TakeStacks(ask.node_id, ask.number, "somewhere");
                     },
                 },
                 effect);
    }
  }

  void Told(const CoordinatorEvent& event) {
    std::visit([](const auto& one) { CheckReadable<CoordinatorEvent>(one); }, event);
    if (std::holds_alternative<ClusterFailed>(event) && ++failures_ > 1) std::abort();
    if (std::holds_alternative<Finished>(event) && ++ends_ > 1) std::abort();
  }

  /// Every member hears of the same group, it is one of it, and groups go forward.
  void CheckGroup(int node_id, const FormedGroup& group) {
    if (group.generation < group_.generation || group.committed < group_.committed) std::abort();
    if (group.generation == group_.generation && group != group_) std::abort();
    if (!std::ranges::is_sorted(group.members, std::ranges::less_equal(), &GroupMember::rank)) {
      std::abort();
    }
    const int rank = node_id - 1;  // Node 0 is a parameter server.
    if (std::ranges::count(group.members, rank, &GroupMember::rank) != 1) std::abort();
    group_ = group;
  }

  void CheckStarts() {
    const std::string shared = SerializeStartTail(roster_.SharedStart(now_));
    for (const int node_id : registered_) {
      const std::string text = SerializeStartHead(roster_.Start(node_id)) + shared;
      if (!ParseMessage<AgentCommand>(text).ok()) std::abort();
    }
  }

  /// The pages, and what the driver is told from time to time.
  void Show() {
    const ClusterStatus status = roster_.Snapshot(now_);
    (void)SerializeStatus(status);
    (void)MetricsText(status);
    CheckReadable<CoordinatorEvent>(MetricsChanged{roster_.TakeChangedMetrics(), {}});
    for (const NodeInfo& node : roster_.Nodes(now_)) (void)ExplainNode(node, "host:1");
  }

  Clock::TimePoint now_;
  Roster roster_;
  std::set<int> registered_;
  FormedGroup group_;  ///< The last one that members were told of.
  int failures_ = 0;
  int ends_ = 0;
};

Losses LossesOf(std::string_view script) {
  if (script.starts_with("e\n")) return Losses::kElastic;
  if (script.starts_with("l\n")) return Losses::kElasticWithLateNodes;
  if (script.starts_with("r\n")) return Losses::kReturningServer;
  return Losses::kOneFedNode;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view script(reinterpret_cast<const char*>(data), size);
  Coordinator coordinator(LossesOf(script));
  while (!script.empty()) {
    const std::size_t end = script.find('\n');
    coordinator.Happens(script.substr(0, end));
    script.remove_prefix(end == std::string_view::npos ? script.size() : end + 1);
  }
  return 0;
}
