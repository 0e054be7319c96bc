#ifndef TFOS_CONTROL_MESSAGES_PARTS_METRIC_NAMES_H_
#define TFOS_CONTROL_MESSAGES_PARTS_METRIC_NAMES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace tfos::control {

enum class MetricKind {
  kCounter,  ///< It only grows; what it grew by in a second is told as a curve.
  kGauge,    ///< It is what it is now, so of a node that has ended there is none.
};

/// A name of a metric that has a meaning for tfos.
struct KnownMetric {
  std::string_view name;
  MetricKind kind = MetricKind::kGauge;
  bool has_curve = true;  ///< False where a table shows it better.
  std::string_view help;  ///< For people, in a few words.
  /// A heartbeat that leaves it out says that it is not known any more. Of all others the latest
  /// value stands.
  bool in_each_heartbeat = false;
  /// What the node's process does in a second. It isn't known while the process gives no sign of
  /// life.
  bool while_it_answers = false;
};

/// All of them: those that feed, agent, coordinator and parameter servers report, and those that
/// programs do. Every other name is a program's, and its number is a gauge. A name of here is in
/// docs/metrics.md, too. What reports one takes it through KnownName. Those in Python
/// and on the page are checked by tests/python/repository/test_metric_names.py.
///
/// Owner and lifetime: constants. Threads: any. Errors: none. Units: as `help` says.
inline constexpr std::array kKnownMetrics = {
    // Metrics of the program.
    KnownMetric{"step", MetricKind::kCounter, true, "steps of the program"},
    KnownMetric{"epoch", MetricKind::kGauge, true, "the epoch that the program is in"},
    KnownMetric{"epochs", MetricKind::kGauge, false, "the epochs that there will be"},
    KnownMetric{"progress", MetricKind::kGauge, false, "the share of the training that is done"},
    KnownMetric{"stopped_early", MetricKind::kGauge, false,
                "1 if a callback has ended fit before its last epoch"},
    KnownMetric{"steps_passed_over", MetricKind::kCounter, false,
                "steps that it passed over, as they were made before"},
    // Metrics of a program that keeps checkpoints.
    KnownMetric{"checkpoints", MetricKind::kCounter, false, "checkpoints written"},
    KnownMetric{"checkpoint_failures", MetricKind::kCounter, false,
                "checkpoints that could not be written"},
    // Metrics of a program that trains in step with others.
    KnownMetric{"share_in_collectives", MetricKind::kGauge, true,
                "share of the time in operations with the other nodes", false, true},
    KnownMetric{"share_waiting_for_nodes", MetricKind::kGauge, true,
                "share of the time waiting in operations with the other nodes", false, true},
    KnownMetric{"collective_bytes_per_second", MetricKind::kGauge, true,
                "bytes a second of the tensors of operations with the other nodes", false, true},
    // Metrics of the feed.
    KnownMetric{"rows", MetricKind::kCounter, true, "rows that the program has read"},
    KnownMetric{"batches", MetricKind::kCounter, true, "batches that the program has read"},
    KnownMetric{"result_rows", MetricKind::kCounter, true, "rows that the program has answered"},
    KnownMetric{"rows_dropped", MetricKind::kCounter, false, "remainders that it passed over"},
    KnownMetric{"rows_read_elsewhere", MetricKind::kCounter, false,
                "rows that the program of a lost node had read"},
    KnownMetric{"rows_passed_on", MetricKind::kCounter, false, "rows passed on to other nodes"},
    KnownMetric{"rows_taken_over", MetricKind::kCounter, false, "rows taken over from others"},
    KnownMetric{"items_delivered", MetricKind::kCounter, false, "items accepted for training"},
    KnownMetric{"items_replayed", MetricKind::kCounter, false,
                "items handed out again from the cache"},
    KnownMetric{"items_unread", MetricKind::kGauge, false,
                "items that the program has not begun with"},
    KnownMetric{"feed_chunks", MetricKind::kCounter, true, "chunks accepted"},
    KnownMetric{"feed_bytes", MetricKind::kCounter, true, "bytes accepted"},
    KnownMetric{"feed_queued_bytes", MetricKind::kGauge, true, "bytes that wait for the program"},
    KnownMetric{"feed_memory_bytes", MetricKind::kGauge, true, "bytes lent to feeders"},
    KnownMetric{"feed_node_wait_seconds", MetricKind::kCounter, true,
                "seconds that the program waited for rows"},
    KnownMetric{"feed_feeder_wait_seconds", MetricKind::kCounter, true,
                "seconds that feeders waited for memory"},
    KnownMetric{"feed_sessions", MetricKind::kGauge, false, "partitions being fed"},
    KnownMetric{"asked_for_more", MetricKind::kGauge, false,
                "1 if the program asked for an epoch that was not fed"},
    KnownMetric{"cache_memory_bytes", MetricKind::kGauge, true, "bytes of the cache in memory"},
    KnownMetric{"cache_file_bytes", MetricKind::kGauge, true, "bytes of the cache in files"},
    // Metrics of a node's agent.
    KnownMetric{"cpu_seconds", MetricKind::kCounter, true, "CPU seconds of the node's process"},
    KnownMetric{"rss_bytes", MetricKind::kGauge, true, "resident bytes of the node's process"},
    KnownMetric{"seconds_without_answer", MetricKind::kGauge, true,
                "seconds that the node's process has given no sign of life"},
    KnownMetric{"gpu_utilization", MetricKind::kGauge, true,
                "share of the time in which the node's GPUs compute, their mean", true},
    KnownMetric{"gpu_memory_bytes", MetricKind::kGauge, true,
                "bytes in use of the memory of the node's GPUs, by all processes", true},
    // Metrics of the coordinator.
    KnownMetric{"seconds_without_step", MetricKind::kGauge, false,
                "seconds without a step of a node that was making steps"},
    KnownMetric{"metrics_left_out", MetricKind::kCounter, false,
                "values left out since the program reports too many names"},
    // Metrics of a native parameter server.
    KnownMetric{"parameter_workers", MetricKind::kGauge, true, "connected workers"},
    KnownMetric{"parameter_pushes", MetricKind::kCounter, true, "pushes of workers"},
    KnownMetric{"parameter_bytes", MetricKind::kGauge, true, "bytes of its variables"},
    KnownMetric{"parameter_bytes_combined", MetricKind::kCounter, true, "bytes combined"},
    KnownMetric{"parameter_bytes_received", MetricKind::kCounter, true, "bytes received"},
    KnownMetric{"parameter_bytes_sent", MetricKind::kCounter, true, "bytes sent"},
};

/// nullptr for a name of a program's own.
constexpr const KnownMetric* FindKnownMetric(std::string_view name) {
  const auto* const found = std::ranges::find(kKnownMetrics, name, &KnownMetric::name);
  return found == kKnownMetrics.end() ? nullptr : found;
}

constexpr MetricKind KindOfMetric(std::string_view name) {
  const KnownMetric* const known = FindKnownMetric(name);
  return known == nullptr ? MetricKind::kGauge : known->kind;
}

/// `name`, for those who report it: a name that is not in the table does not compile.
consteval const char* KnownName(const char* name) {
  return FindKnownMetric(name) == nullptr ? throw "not in kKnownMetrics" : name;
}

static_assert(std::ranges::all_of(kKnownMetrics,
                                  [](const KnownMetric& metric) {
                                    return std::ranges::count(kKnownMetrics, metric.name,
                                                              &KnownMetric::name) == 1;
                                  }),
              "a name stands twice");

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_METRIC_NAMES_H_
