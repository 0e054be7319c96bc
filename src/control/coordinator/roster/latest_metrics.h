#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_LATEST_METRICS_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_LATEST_METRICS_H_

#include <utility>

#include "control/messages/parts/metrics.h"

namespace tfos::control {

/// The latest value of each of a node's metrics, and whether any is news. A value; threads: one at
/// a time.
class LatestMetrics {
 public:
  void Merge(const Metrics& metrics) {
    for (const auto& [name, value] : metrics) {
      const auto [known, added] = values_.try_emplace(name, value);
      if (!added && known->second == value) continue;
      known->second = value;
      changed_ = true;
    }
  }

  /// True when any has changed since the last time this was called.
  bool TakeChanged() { return std::exchange(changed_, false); }
  const Metrics& values() const { return values_; }

 private:
  Metrics values_;
  bool changed_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_LATEST_METRICS_H_
