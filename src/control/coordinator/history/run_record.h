#ifndef TFOS_CONTROL_COORDINATOR_HISTORY_RUN_RECORD_H_
#define TFOS_CONTROL_COORDINATOR_HISTORY_RUN_RECORD_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time/deadline.h"
#include "control/coordinator/history/event_log.h"
#include "control/coordinator/history/history.h"
#include "control/coordinator/history/phases/phase_log.h"
#include "control/coordinator/history/run_meter.h"
#include "control/messages/driver_messages.h"
#include "control/messages/parts/metrics.h"
#include "control/messages/status_messages.h"
#include "tfos/status.h"

namespace tfos::control {

/// What somebody wants to know of a run.
struct HistoryQuery {
  History::Range range = History::Range::kRecent;
  std::vector<int> nodes = {};  ///< Whose own curves are wanted.
  std::int64_t events_from = 0;

  /// Parses `range=recent|whole&nodes=0,3&events_from=17&page=a1`, each part of which may be
  /// missing. The name of the asking page changes nothing. Bad input, naming what is wrong, for
  /// anything else and for more than History::kMostNodes nodes.
  static Result<HistoryQuery> Parse(std::string_view query);
};

/// How a cluster's run has gone so far: its numbers over time, its events, what the driver is at.
///
/// Owner and lifetime: the coordinator's; a value. Threads: one at a time. Errors: none.
class RunRecord {
 public:
  RunRecord(std::string cluster_id, std::size_t nodes, std::chrono::milliseconds interval,
            Clock::TimePoint now);

  void Take(const DriverMessage& message, Clock::TimePoint now);
  void Take(const CoordinatorEvent& event, Clock::TimePoint now);
  /// Takes what a node has reported.
  void Update(int node_id, const Metrics& metrics) { history_.Update(node_id, metrics); }
  /// To be called in each interval.
  void Sample(Clock::TimePoint now) { history_.Sample(Since(now)); }
  /// A copy with a sample of now, so that its curves end with what the nodes have reported by now.
  /// The record itself takes none: many such copies in a short time must not crowd out samples.
  RunRecord SampledAt(Clock::TimePoint now) const;
  /// After a sample, and at the end.
  void Measure(const std::vector<NodeView>& nodes, Clock::TimePoint now);
  /// As it was measured last.
  const RunProgress& progress() const { return progress_; }
  /// As it is with what the nodes have reported by now. Rates are those of the last sample.
  RunProgress ProgressOf(const std::vector<NodeView>& nodes) const {
    return meter_.Read(nodes, history_, activity_);
  }

  /// An object of JSON, as docs/formats/control-protocol.md has it.
  std::string Json(const HistoryQuery& query, Clock::TimePoint now) const;
  std::size_t nodes() const { return history_.nodes(); }
  /// How long a page waits until it asks again. Answers grow with the cluster.
  std::chrono::milliseconds ask_again() const {
    constexpr std::chrono::milliseconds kLeast{2000};
    constexpr std::chrono::milliseconds kMost{10'000};
    constexpr std::chrono::milliseconds kForANode{10};
    return std::clamp(kForANode * static_cast<std::int64_t>(nodes()), kLeast, kMost);
  }
  const std::string& stopped_by() const { return stopped_by_; }
  /// Of the last sample.
  NodeRates Rates() const;
  /// Those that the driver shows.
  NodeRates RatesOfFeed() const;

 private:
  std::chrono::milliseconds Since(Clock::TimePoint now) const;
  NodeRates RatesOf(std::span<const char* const> names) const;
  std::string ActivityJson() const;
  std::string DivergedJson() const;
  /// Says once of each node when its loss isn't a finite number any more.
  void NoteBadLosses(const std::vector<NodeView>& nodes, Clock::TimePoint now);
  /// Says once when the process of a node gives no sign of life any more, and when it does again.
  void NoteSilences(const std::vector<NodeView>& nodes, Clock::TimePoint now);
  /// Says once when a node makes no steps any more, and when it does again.
  void NoteStuck(const std::vector<NodeView>& nodes, Clock::TimePoint now);
  /// Adds one event for all nodes to which something happens at once. One for each would push out
  /// all else in a big cluster.
  void NoteTogether(const std::vector<NodeView>& nodes, std::string_view of_one,
                    std::string of_several, Clock::TimePoint now);
  /// After all of these.
  void NotePhases(const std::vector<NodeView>& nodes, Clock::TimePoint now);
  void NotePhase(const NodeInfo& node, std::string_view state, std::string_view doing,
                 Clock::TimePoint now);
  std::string PhasesJson(const std::vector<int>& picked) const;

  const std::string cluster_id_;
  const Clock::TimePoint begun_;
  const std::int64_t started_ms_;  // by the wall's clock
  History history_;
  EventLog events_;
  PhaseLog phases_;
  Activity activity_;
  RunMeter meter_;
  RunProgress progress_;
  std::map<std::string, std::int64_t> epochs_fed_;  // by queue
  std::string stop_reason_;                         // what the driver last stopped all nodes for
  std::string stopped_by_;                          // whose `tfos stop` has ended the cluster
  /// Since when the loss of a node isn't a finite number.
  std::map<int, std::chrono::milliseconds> diverged_;
  std::set<int> silent_;
  std::set<int> stuck_;  // those that make no steps any more
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_HISTORY_RUN_RECORD_H_
