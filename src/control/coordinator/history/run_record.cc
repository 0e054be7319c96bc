#include "control/coordinator/history/run_record.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/text/json_fields.h"
#include "base/text/query.h"
#include "control/messages/parts/metric_names.h"
#include "control/messages/progress/silence.h"

namespace tfos::control {
namespace {

using std::chrono::milliseconds;

constexpr int kNoNode = -1;
constexpr std::array kRatesOfNodes = {KnownName("step"),
                                      KnownName("rows"),
                                      KnownName("feed_bytes"),
                                      KnownName("feed_node_wait_seconds"),
                                      KnownName("feed_feeder_wait_seconds"),
                                      KnownName("cpu_seconds")};
constexpr std::array kRatesOfFeed = {KnownName("rows"), KnownName("feed_bytes")};
/// Queues are few; a driver that makes up names must not fill the memory.
constexpr std::size_t kMostQueues = 64;

Status BadQuery(std::string_view part) {
  return Status(ErrorKind::kBadInput,
                fmt::format("'{}' is wrong: expected range=recent or range=whole, nodes=0,3 with "
                            "at most {} nodes, events_from=N, and page=NAME, joined by &",
                            part, History::kMostNodes));
}

template <typename Number>
bool ParseNumber(std::string_view text, Number& number) {
  return ReadNumber(text, Number{0}, std::numeric_limits<Number>::max(), number);
}

bool ParseNodes(std::string_view list, std::vector<int>& nodes) {
  while (!list.empty()) {
    if (nodes.size() == History::kMostNodes) return false;
    if (!ParseNumber(TakeUntil(',', list), nodes.emplace_back())) return false;
  }
  return true;
}

/// Nodes that have begun to be something, and those that have ended, since the last look.
struct Turns {
  std::vector<NodeView> began;
  std::vector<NodeView> ended;  ///< Without those that have ended altogether.
};

/// `seconds_of`: for how long a node is so; 0: it is not. `known`: those that were.
Turns TurnsOf(const std::vector<NodeView>& nodes,
              double (*seconds_of)(const NodeInfo&, const Metrics&), std::set<int>& known) {
  Turns turns;
  for (const NodeView& node : nodes) {
    const int id = node.info->node_id;
    if (seconds_of(*node.info, *node.metrics) > 0) {
      if (known.insert(id).second) turns.began.push_back(node);
    } else if (known.erase(id) > 0 && !IsFinal(node.info->state)) {
      turns.ended.push_back(node);
    }
  }
  return turns;
}

}  // namespace

Result<HistoryQuery> HistoryQuery::Parse(std::string_view query) {
  HistoryQuery parsed;
  while (!query.empty()) {
    const std::string_view part = TakeUntil('&', query);
    std::string_view value = part;
    const std::string_view name = TakeUntil('=', value);
    bool good = false;
    if (name == "range") {
      good = value == "recent" || value == "whole";
      parsed.range = value == "whole" ? History::Range::kWhole : History::Range::kRecent;
    } else if (name == "nodes") {
      good = ParseNodes(value, parsed.nodes);
    } else if (name == "events_from") {
      good = ParseNumber(value, parsed.events_from);
    } else if (name == "page") {
      good = !value.empty();
    }
    if (!good) return BadQuery(part);
  }
  return parsed;
}

RunRecord::RunRecord(std::string cluster_id, std::size_t nodes, milliseconds interval,
                     Clock::TimePoint now)
    : cluster_id_(std::move(cluster_id)),
      begun_(now),
      started_ms_(std::chrono::duration_cast<milliseconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count()),
      history_(nodes, interval) {}

milliseconds RunRecord::Since(Clock::TimePoint now) const {
  return std::chrono::duration_cast<milliseconds>(now - begun_);
}

RunRecord RunRecord::SampledAt(Clock::TimePoint now) const {
  RunRecord record = *this;
  record.history_.SampleAtOnce(Since(now));
  return record;
}

void RunRecord::Take(const DriverMessage& message, Clock::TimePoint now) {
  const auto add = [&](int node_id, std::string text) {
    events_.Add(Since(now), node_id, std::move(text));
  };
  if (const auto* ended = std::get_if<EndEpoch>(&message)) {
    if (epochs_fed_.size() < kMostQueues || epochs_fed_.contains(ended->queue)) {
      epochs_fed_[ended->queue] = ended->epoch + std::int64_t{1};
    }
    events_.AddEpoch(Since(now), ended->queue, ended->epoch + std::int64_t{1});
  } else if (const auto* abandoned = std::get_if<AbandonEpoch>(&message)) {
    add(kNoNode, fmt::format("feeding epoch {} of the queue '{}' was interrupted",
                             abandoned->epoch + std::int64_t{1}, abandoned->queue));
  } else if (std::holds_alternative<EndFeed>(message)) {
    add(kNoNode, "the feed has ended");
  } else if (const auto* stop = std::get_if<Stop>(&message)) {
    // `tfos stop` has the driver say it, and the error that its program gets has it say so again.
    if (stop_reason_ == stop->reason) return;
    stop_reason_ = stop->reason;
    add(kNoNode, fmt::format("the driver stops all nodes: {}", stop->reason));
  } else if (const auto* leaving = std::get_if<NodeLeaving>(&message)) {
    events_.AddOfNode(Since(now), leaving->node_id,
                      fmt::format("Spark takes its executor away: {}", leaving->reason));
  } else if (const auto* activity = std::get_if<Activity>(&message)) {
    activity_ = *activity;
    phases_.Note(Since(now), PhaseLog::kDriver, "driver", activity->doing);
  }
}

void RunRecord::Take(const CoordinatorEvent& event, Clock::TimePoint now) {
  if (const auto* changed = std::get_if<NodeChanged>(&event)) {
    const NodeInfo& node = changed->node;
    events_.AddState(Since(now), node);
    // Between two measurements. What is wrong with a node lasts until it is measured again.
    const bool wrong = diverged_.contains(node.node_id) || silent_.contains(node.node_id) ||
                       stuck_.contains(node.node_id);
    if (!wrong || IsFinal(node.state)) NotePhase(node, NodeStateName(node.state), node.detail, now);
    if (IsFinal(changed->node.state)) history_.EndNode(changed->node.node_id);
    if (changed->node.state == NodeState::kRegistered) history_.BeginNode(changed->node.node_id);
  } else if (const auto* away = std::get_if<TurnedAway>(&event)) {
    events_.AddOfNode(Since(now), away->node_id,
                      fmt::format("turned away from host {}: {}", away->host, away->reason));
  } else if (const auto* formed = std::get_if<ClusterFormed>(&event)) {
    const auto there = std::ranges::count_if(
        formed->nodes, [](const NodeInfo& node) { return node.state != NodeState::kExpected; });
    events_.Add(Since(now), kNoNode,
                fmt::format("the cluster has formed: {} node{}", there, there == 1 ? "" : "s"));
  } else if (const auto* failed = std::get_if<ClusterFailed>(&event)) {
    const Failure& failure = failed->failure;
    const std::string who =
        failure.node_id < 0 ? "could not"
                            : fmt::format("{}:{} failed to", failure.job_name, failure.task_index);
    events_.Add(Since(now), failure.node_id,
                fmt::format("the cluster has failed: {} {}: {}", who, failure.report.step,
                            failure.report.message));
  } else if (const auto* ended = std::get_if<NodeFeedTerminated>(&event)) {
    events_.AddOfNode(Since(now), ended->node_id, "its program wants no more rows");
  } else if (const auto* stop = std::get_if<StopAsked>(&event)) {
    stopped_by_ = stop->by;
    events_.Add(Since(now), kNoNode, fmt::format("{} asks for the cluster's end", stop->by));
  } else if (std::holds_alternative<Finished>(event)) {
    events_.Add(Since(now), kNoNode, "every node has ended");
  }
}

void RunRecord::Measure(const std::vector<NodeView>& nodes, Clock::TimePoint now) {
  progress_ = meter_.Measure(nodes, history_, activity_, Since(now));
  NoteBadLosses(nodes, now);
  NoteSilences(nodes, now);
  NoteStuck(nodes, now);
  NotePhases(nodes, now);
}

void RunRecord::NoteBadLosses(const std::vector<NodeView>& nodes, Clock::TimePoint now) {
  for (const NodeView& node : nodes) {
    const int id = node.info->node_id;
    const std::string_view loss = BadLossOf(*node.metrics);
    if (loss.empty()) {
      diverged_.erase(id);
    } else if (diverged_.try_emplace(id, Since(now)).second) {
      events_.AddOfNode(Since(now), id, fmt::format("its loss is {}", loss));
    }
  }
}

void RunRecord::NoteSilences(const std::vector<NodeView>& nodes, Clock::TimePoint now) {
  const Turns turns = TurnsOf(nodes, SecondsSilent, silent_);
  NoteTogether(turns.began, "no sign of life", SilenceAmong(turns.began), now);
  NoteTogether(turns.ended, "signs of life again",
               fmt::format("signs of life again of {} nodes", turns.ended.size()), now);
}

void RunRecord::NoteStuck(const std::vector<NodeView>& nodes, Clock::TimePoint now) {
  Turns turns = TurnsOf(nodes, SecondsWithoutStep, stuck_);
  std::erase_if(turns.ended,
                [&](const NodeView& node) { return silent_.contains(node.info->node_id); });
  const double longest =
      turns.began.empty() ? 0 : SecondsWithoutStep(*turns.began[0].info, *turns.began[0].metrics);
  NoteTogether(turns.began, fmt::format("no step for {:.0f} s", longest), StuckAmong(turns.began),
               now);
  NoteTogether(turns.ended, "goes on", fmt::format("{} nodes go on", turns.ended.size()), now);
}

void RunRecord::NoteTogether(const std::vector<NodeView>& nodes, std::string_view of_one,
                             std::string of_several, Clock::TimePoint now) {
  if (nodes.size() == 1) events_.AddOfNode(Since(now), nodes[0].info->node_id, of_one);
  if (nodes.size() > 1) events_.Add(Since(now), kNoNode, std::move(of_several));
}

void RunRecord::NotePhases(const std::vector<NodeView>& nodes, Clock::TimePoint now) {
  for (const NodeView& node : nodes) {
    const int id = node.info->node_id;
    std::string_view state = NodeStateName(node.info->state);
    if (!IsFinal(node.info->state) && diverged_.contains(id)) state = "diverged";
    if (stuck_.contains(id)) state = "stuck";
    if (silent_.contains(id)) state = "silent";
    NotePhase(*node.info, state, DoingOf(*node.info, *node.metrics), now);
  }
}

void RunRecord::NotePhase(const NodeInfo& node, std::string_view state, std::string_view doing,
                          Clock::TimePoint now) {
  // How a node has ended is an event.
  phases_.Note(Since(now), node.node_id, state, IsFinal(node.state) ? "" : doing);
}

std::string RunRecord::PhasesJson(const std::vector<int>& picked) const {
  if (nodes() > History::kMostNodes) return phases_.Json(picked);
  std::vector<int> all(nodes());
  std::iota(all.begin(), all.end(), 0);
  return phases_.Json(all);
}

NodeRates RunRecord::Rates() const { return RatesOf(kRatesOfNodes); }

NodeRates RunRecord::RatesOfFeed() const { return RatesOf(kRatesOfFeed); }

NodeRates RunRecord::RatesOf(std::span<const char* const> names) const {
  NodeRates rates;
  for (int node = 0; node < static_cast<int>(nodes()); ++node) {
    for (const char* const name : names) {
      const std::optional<double> rate = history_.Rate(name, node);
      if (rate.has_value()) rates[std::to_string(node)][name] = *rate;
    }
  }
  return rates;
}

std::string RunRecord::ActivityJson() const {
  return WriteJsonLine({{"doing", activity_.doing},
                        {"items_read", activity_.items_read},
                        {"items_moved", activity_.items_moved},
                        {"unit", activity_.unit},
                        {"cut_short", activity_.cut_short},
                        {"epochs_fed", epochs_fed_}});
}

std::string RunRecord::DivergedJson() const {
  std::map<std::string, std::int64_t> since;
  for (const auto& [id, time] : diverged_) since[std::to_string(id)] = time.count();
  return WriteJsonLine(since);
}

std::string RunRecord::Json(const HistoryQuery& query, Clock::TimePoint now) const {
  return fmt::format(
      R"({{"cluster_id":{},"started_ms":{},"now_ms":{},"ask_again_ms":{},"activity":{},)"
      R"("diverged":{},"phases":{},"events":{},"events_count":{},"range":"{}",{}}})",
      WriteJsonLine(cluster_id_), started_ms_, Since(now).count(), ask_again().count(),
      ActivityJson(), DivergedJson(), PhasesJson(query.nodes), events_.Json(query.events_from),
      events_.changes(), query.range == History::Range::kWhole ? "whole" : "recent",
      history_.Json(query.range, query.nodes));
}

}  // namespace tfos::control
