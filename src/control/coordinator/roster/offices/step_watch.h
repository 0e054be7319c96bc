#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_STEP_WATCH_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_STEP_WATCH_H_

#include <chrono>
#include <optional>

#include "base/time/deadline.h"
#include "control/messages/parts/metrics.h"

namespace tfos::control {

/// Notices that a node which was making steps makes none any more.
///
/// For people, a node has stopped if it has made no step for kLeast, and for kUsual times of what
/// is usual between two of its reports of steps. A program may report a step rarely, so it is these
/// that count, and not the steps in them. Waiting for rows does not count: that is said elsewhere.
///
/// For a limit that somebody has set, it stands whatever it says that it does, and however long its
/// steps usually take. Else a checkpoint on a file system that does not answer would have no end.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none.
class StepWatch {
 public:
  static constexpr std::chrono::seconds kLeast{30};
  static constexpr int kUsual = 10;
  /// Reports of steps that say what is usual. A first step takes long, and is not among them.
  static constexpr int kFewest = 2;

  /// Takes the node's latest metrics. `explained`: whether it is known why there are no steps. The
  /// time without a step begins anew after that.
  void Take(const Metrics& metrics, bool explained, Clock::TimePoint now);

  /// For how long there has been no step; 0 as long as that is usual.
  std::chrono::seconds without_step() const { return without_step_; }

  /// For how long it has neither made a step, nor passed over one, nor read a row, less what it
  /// waited for rows meanwhile. 0 before its first step: that is compiled.
  Clock::Duration standing() const { return standing_; }
  /// The time up to now does not count as standing.
  void Excuse(Clock::TimePoint now);
  /// The latest step, as the node reports it.
  std::optional<double> step() const { return step_; }

 private:
  void Measure(std::optional<double> step, const Metrics& metrics, bool explained,
               Clock::TimePoint now);

  std::optional<double> step_;  // the latest
  double waited_ = 0;           // for rows, in seconds, at that step
  Clock::TimePoint since_;      // of the latest step, or of an explanation
  int intervals_ = 0;           // between two steps that were reported
  Clock::Duration sum_{0};      // of the intervals
  std::chrono::seconds without_step_{0};
  // What it stands by:
  bool has_begun_ = false;
  double rows_ = 0;
  double passed_over_ = 0;  // steps
  double waited_so_far_ = 0;
  double waited_before_ = 0;  // as it began to stand
  Clock::TimePoint stands_since_;
  Clock::Duration standing_{0};
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_STEP_WATCH_H_
