#include "node/agent_link.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/logging.h"
#include "base/thread/mutex.h"
#include "base/time/deadline.h"
#include "control/messages/node_notices.h"
#include "control/messages/parts/metric_names.h"
#include "feed/feeder/feed_plan.h"
#include "feed/feeder/pass_rows.h"
#include "node/step_messages.h"

namespace tfos::node {
namespace {

using control::KnownName;
using nlohmann::json;

// The agent writes the bootstrap and the program as soon as it has started this process.
constexpr std::chrono::seconds kBootstrapPatience{60};

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// What is left of `all` without `part`. Counters are read one after the other: for a moment a part
/// may be more than all, of which nothing is left then.
std::uint64_t LeftOf(std::uint64_t all, std::uint64_t part) { return all - std::min(part, all); }

json FeedMetrics(const NodeFeed& feed) {
  json metrics = json::object();
  // In this order: what was read was delivered before.
  const std::uint64_t rows = feed.rows();
  const std::uint64_t dropped_rows = feed.dropped_rows();
  const feed::FeedCounters counters = feed.server().counters();
  metrics[KnownName("rows")] = rows;
  metrics[KnownName("batches")] = feed.batches();
  metrics[KnownName("rows_dropped")] = dropped_rows;
  const std::uint64_t delivered = LeftOf(counters.train_items, counters.withdrawn_items);
  metrics[KnownName("items_delivered")] = delivered;
  metrics[KnownName("items_unread")] = LeftOf(delivered, counters.taken_items);
  metrics[KnownName("rows_read_elsewhere")] = counters.rows_read_elsewhere;
  metrics[KnownName("rows_passed_on")] = feed.rows_passed_on();
  metrics[KnownName("rows_taken_over")] = feed.rows_taken_over();
  metrics[KnownName("items_replayed")] = counters.replayed_items;
  metrics[KnownName("result_rows")] = counters.result_rows;
  metrics[KnownName("feed_chunks")] = counters.chunks;
  metrics[KnownName("feed_bytes")] = counters.bytes;
  metrics[KnownName("feed_queued_bytes")] = counters.queued_bytes;
  metrics[KnownName("feed_memory_bytes")] = counters.region_bytes_in_use;
  metrics[KnownName("cache_memory_bytes")] = counters.cache_memory_bytes;
  metrics[KnownName("cache_file_bytes")] = counters.cache_file_bytes;
  metrics[KnownName("feed_node_wait_seconds")] =
      Seconds(counters.consumer_wait + feed.steps().waited());
  metrics[KnownName("feed_feeder_wait_seconds")] = Seconds(counters.feeder_wait);
  metrics[KnownName("feed_sessions")] = counters.open_sessions;
  if (feed.asked_for_more()) metrics[KnownName("asked_for_more")] = 1;
  return metrics;
}

}  // namespace

constexpr const char* kRenamed = "program_";

struct AgentLink::State {
  Mutex mutex;
  std::shared_ptr<NodeFeed> feed TFOS_GUARDED_BY(mutex);
  std::optional<control::EndFeed> feed_end TFOS_GUARDED_BY(mutex);
  std::map<std::string, std::uint32_t> ended_epochs
      TFOS_GUARDED_BY(mutex);  ///< By queue, the last.
  bool said_renamed TFOS_GUARDED_BY(mutex) = false;
  std::string renamed TFOS_GUARDED_BY(mutex);  ///< The metric that the log has yet to name.
  control::NodeNotices notices TFOS_GUARDED_BY(mutex);
  json program_metrics TFOS_GUARDED_BY(mutex) = json::object();
  std::string reported TFOS_GUARDED_BY(mutex);
  std::shared_ptr<Generations> generations;  // From before the link starts.

  void OnFeed(const control::NodeCommand& command) {
    if (const auto* regroup = std::get_if<control::Regroup>(&command)) {
      generations->On(*regroup);
      return;
    }
    if (const auto* group = std::get_if<control::FormedGroup>(&command)) {
      generations->On(*group);
      return;
    }
    if (std::holds_alternative<control::Meet>(command)) {
      generations->OnMeet();
      return;
    }
    if (const auto* none = std::get_if<control::NoGroup>(&command)) {
      generations->On(*none);
      return;
    }
    std::shared_ptr<NodeFeed> told;
    {
      const MutexLock lock(mutex);
      if (const auto* notice = std::get_if<control::NodeLeaving>(&command)) {
        notices.Add(*notice);
        return;
      }
      if (const auto* notice = std::get_if<control::NodeMoved>(&command)) {
        notices.Add(*notice);
        return;
      }
      // A node that comes late may hear of its feeds' ends before it has made the feeds.
      if (const auto* over = std::get_if<control::EndFeed>(&command)) feed_end = *over;
      if (const auto* ended = std::get_if<control::EndEpoch>(&command)) {
        std::uint32_t& last = ended_epochs[ended->queue];
        last = std::max(last, static_cast<std::uint32_t>(ended->epoch));
      }
      told = feed;
    }
    if (told) TellFeed(*told, command);
  }

  /// Without the lock: what goes to the log takes as long as the log does.
  static void TellFeed(NodeFeed& feed, const control::NodeCommand& command) {
    if (const auto* ended = std::get_if<control::EndEpoch>(&command)) {
      feed.server().EndEpoch(ended->queue, static_cast<std::uint32_t>(ended->epoch));
    } else if (const auto* abandoned = std::get_if<control::AbandonEpoch>(&command)) {
      const Result<feed::JobId> job = feed::ReadJobId(abandoned->job);
      if (!job.ok()) {
        LogWarning("the end of an interrupted job is left out: {}", job.status().ToString());
        return;
      }
      feed.server().AbandonEpoch(abandoned->queue, static_cast<std::uint32_t>(abandoned->epoch),
                                 *job);
    } else if (const auto* over = std::get_if<control::EndJob>(&command)) {
      const Result<feed::JobId> job = feed::ReadJobId(over->job);
      if (!job.ok()) {
        LogWarning("the end of a job is left out: {}", job.status().ToString());
        return;
      }
      feed.server().EndJob(*job);
    } else if (const auto* tickets = std::get_if<control::StepTickets>(&command)) {
      feed.steps().OnGrant(GrantOf(*tickets));
    } else if (const auto* end = std::get_if<control::EndFeed>(&command)) {
      EndFeedOf(feed, *end);
    }
  }

  static void EndFeedOf(NodeFeed& feed, const control::EndFeed& end) {
    if (end.at_once) feed.server().StopReading();
    feed.server().EndFeed();
  }

  /// The feed's own names stay the feed's: the driver counts rows by them.
  void AddProgramMetrics(json& metrics) TFOS_REQUIRES(mutex) {
    const json own = metrics;
    for (const auto& [name, value] : program_metrics.items()) {
      const bool taken = own.contains(name);
      if (taken && !std::exchange(said_renamed, true)) renamed = name;
      metrics[taken ? kRenamed + name : name] = value;
    }
  }

  /// Says it, without the lock, as above.
  void WarnOfRenamed() TFOS_EXCLUDES(mutex) {
    std::string name;
    {
      const MutexLock lock(mutex);
      name = std::exchange(renamed, {});
    }
    if (name.empty()) return;
    LogWarning(
        "the program reports a metric named '{}', as the feed does: the program's is "
        "shown as '{}{}'; give it another name",
        name, kRenamed, name);
  }

  std::string Metrics() TFOS_REQUIRES(mutex) {
    json metrics = feed ? FeedMetrics(*feed) : json::object();
    AddProgramMetrics(metrics);
    return metrics.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  /// Empty when nothing has changed since the last report.
  std::string NewMetrics() {
    const MutexLock lock(mutex);
    std::string text = Metrics();
    if (text == reported) return {};
    reported = text;
    return text;
  }
};

AgentLink::AgentLink(std::shared_ptr<control::NodeLink> link, std::shared_ptr<State> state)
    : link_(std::move(link)), state_(std::move(state)) {}

AgentLink::~AgentLink() {
  const MutexLock lock(state_->mutex);
  if (state_->feed) state_->feed->steps().SetSender({});
}

Result<std::unique_ptr<AgentLink>> AgentLink::FromEnvironment() {
  TFOS_ASSIGN_OR_RETURN(auto link,
                        control::NodeLink::FromEnvironment(Deadline::After(kBootstrapPatience)));
  return Start(std::move(link));
}

Result<std::unique_ptr<AgentLink>> AgentLink::Start(std::unique_ptr<control::NodeLink> owned) {
  const std::shared_ptr<control::NodeLink> link = std::move(owned);
  const json bootstrap = json::parse(link->bootstrap(), nullptr, false);
  if (!bootstrap.is_object()) {
    return Status(ErrorKind::kBadInput, "the agent's bootstrap message is not a JSON object");
  }
  const auto text = [&](const char* name) {
    const auto field = bootstrap.find(name);
    return field != bootstrap.end() && field->is_string() ? field->get<std::string>() : "";
  };
  SetUpLogging(fmt::format("node cluster={} node={} host={}", text("cluster_id"),
                           bootstrap.value("node_id", -1), text("host")),
               text("log_level"));
  auto state = std::make_shared<State>();
  // Not kept by it: the link's handlers keep the state.
  state->generations = std::make_shared<Generations>(
      [link = std::weak_ptr(link)](const control::GroupReady& ready) -> Status {
        const auto held = link.lock();
        if (held == nullptr) return {ErrorKind::kReconnect, "the link to the agent was closed"};
        return held->Send(control::SerializeMessage(ready));
      });
  TFOS_RETURN_IF_ERROR(
      link->Start({.on_feed = [state](const control::NodeCommand& c) { state->OnFeed(c); },
                   .metrics =
                       [state] {
                         std::string metrics = state->NewMetrics();
                         state->WarnOfRenamed();
                         return metrics;
                       }}));
  return std::unique_ptr<AgentLink>(new AgentLink(link, std::move(state)));
}

void AgentLink::Attach(std::shared_ptr<NodeFeed> feed) {
  // Keeps the link: a thread that reads a batch may still be sending when this object goes.
  feed->steps().SetSender([link = link_](const feed::StepReport& report) {
    return link->Send(control::SerializeMessage(MessageOf(report)));
  });
  feed->steps().SetPasser(
      [key = feed->server().key(), encryption = feed->server().encryption()](
          const feed::StepGrant& grant, const feed::RowPass& pass, const feed::PassedPiece& piece) {
        return feed::PassRows(pass.to, key, grant.queue, grant.epoch, piece.chunk, piece.rows,
                              {.from = pass.from,
                               .number = piece.number,
                               .encryption = encryption,
                               .check = piece.check});
      });
  State& state = *state_;
  std::map<std::string, std::uint32_t> ended_epochs;
  std::optional<control::EndFeed> feed_end;
  {
    const MutexLock lock(state.mutex);
    state.feed = feed;
    ended_epochs = state.ended_epochs;
    feed_end = state.feed_end;
  }
  for (const auto& [queue, epoch] : ended_epochs) feed->server().EndEpoch(queue, epoch);
  if (feed_end) State::EndFeedOf(*feed, *feed_end);
}

Status AgentLink::Send(const std::string& message) {
  link_->SendMetrics();
  return link_->Send(message);
}

std::string AgentLink::Metrics() const {
  const MutexLock lock(state_->mutex);
  return state_->Metrics();
}

std::shared_ptr<Generations> AgentLink::generations() const { return state_->generations; }

std::map<int, std::string> AgentLink::Leaving() const {
  const MutexLock lock(state_->mutex);
  return state_->notices.reasons();
}

AgentLink::FindMoved AgentLink::moved() const {
  return [state = state_](int node_id) -> std::optional<control::NodeMoved> {
    const MutexLock lock(state->mutex);
    const auto found = state->notices.moved().find(node_id);
    if (found == state->notices.moved().end()) return std::nullopt;
    return found->second;
  };
}

Status AgentLink::SetMetrics(const std::string& text) {
  json metrics = json::parse(text, nullptr, false);
  if (!metrics.is_object()) {
    return Status(ErrorKind::kBadInput, "metrics are not a JSON object");
  }
  State& state = *state_;
  const MutexLock lock(state.mutex);
  state.program_metrics = std::move(metrics);
  return Status::Ok();
}

}  // namespace tfos::node
