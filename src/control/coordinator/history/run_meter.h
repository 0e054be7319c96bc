#ifndef TFOS_CONTROL_COORDINATOR_HISTORY_RUN_METER_H_
#define TFOS_CONTROL_COORDINATOR_HISTORY_RUN_METER_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "control/coordinator/history/history.h"
#include "control/coordinator/history/share_meter.h"
#include "control/messages/driver_messages.h"
#include "control/messages/parts/metrics.h"
#include "control/messages/progress/node_view.h"
#include "control/messages/progress/run_progress.h"

namespace tfos::control {

/// What a node's loss is if it isn't a finite number: "nan", "inf" or "-inf". Else empty.
/// Threads: a pure function.
std::string_view BadLossOf(const Metrics& metrics);

/// How far the training of all nodes has come: the one source of the driver's progress line, of
/// `tfos top`, and of the page.
///
/// A program says so by the metrics `epoch`, `epochs`, `progress`, `step` and `loss`, as those of
/// Keras do by themselves. Of one that reports no `progress`, the driver's counts of epochs and
/// rows say it, where it knows them. These need not agree, so a change from one to another says
/// nothing about the speed.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none.
class RunMeter {
 public:
  /// The side that waits for at least this share of the time is named.
  static constexpr double kMostly = 0.5;

  /// To be called in each interval, after the history's sample. `now`: since the start.
  RunProgress Measure(const std::vector<NodeView>& nodes, const History& history,
                      const Activity& activity, std::chrono::milliseconds now);
  /// As the nodes are now. Rates and the time left are those of the last measurement.
  RunProgress Read(const std::vector<NodeView>& nodes, const History& history,
                   const Activity& activity) const;

 private:
  enum class Source { kNone, kProgram, kTasks, kItems };
  struct Share {
    Source source = Source::kNone;
    std::optional<double> done;
  };

  static Share ShareOf(const std::vector<NodeView>& training, const std::vector<NodeView>& telling,
                       const Activity& activity);
  static Share ShareFed(const std::vector<NodeView>& training, const Activity& activity);
  static std::int64_t EpochOf(const Share& share, const Activity& activity);

  Source source_ = Source::kNone;
  ShareMeter share_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_HISTORY_RUN_METER_H_
