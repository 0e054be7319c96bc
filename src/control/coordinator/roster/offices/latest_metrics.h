#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_LATEST_METRICS_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_LATEST_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "control/messages/parts/metric_names.h"
#include "control/messages/parts/metrics.h"

namespace tfos::control {

/// The latest value of each of a node's metrics, and whether any is news. A value; threads: one at
/// a time.
///
/// A program that makes up a new name for each step must not fill the coordinator's memory: of more
/// than kMostNames the later ones are left out, and counted in the metric kLeftOut.
class LatestMetrics {
 public:
  static constexpr std::size_t kMostNames = 1024;
  static constexpr std::string_view kLeftOut = KnownName("metrics_left_out");

  /// Takes those of a heartbeat.
  void Merge(const Metrics& metrics) {
    for (const KnownMetric& known : kKnownMetrics) {
      if (!IsForgottenBy(metrics, known)) continue;
      if (values_.erase(std::string(known.name)) > 0) changed_ = true;
    }
    for (const auto& [name, value] : metrics) {
      const auto known = values_.find(name);
      if (known != values_.end()) {
        if (known->second == value) continue;
        known->second = value;
      } else if (values_.size() < kMostNames) {
        values_.emplace(name, value);
      } else {
        values_.insert_or_assign(std::string(kLeftOut), ++left_out_);
      }
      changed_ = true;
    }
  }

  /// What the coordinator itself knows of the node; nothing takes it back.
  void Set(const char* name, std::optional<MetricValue> value) {
    if (!value.has_value()) {
      changed_ = values_.erase(name) > 0 || changed_;
      return;
    }
    MetricValue& known = values_[name];
    changed_ = changed_ || known != *value;
    known = *std::move(value);
  }

  /// Forgets all when a node comes again: what its last process said is not true of this one. What
  /// that one had counted of its feed stays done. `was_fed`: without a feed, `rows` is a name of
  /// the program's.
  void BeginAnew(bool was_fed) {
    if (was_fed) AddTo(before_);
    changed_ = changed_ || !values_.empty();
    values_.clear();
    left_out_ = 0;
  }

  /// True when any has changed since the last time this was called.
  bool TakeChanged() { return std::exchange(changed_, false); }
  const Metrics& values() const { return values_; }
  /// What all processes had counted in whose place this one came.
  const Metrics& before() const { return before_; }

 private:
  /// Not of steps: a node that comes again goes on with those of the others.
  static bool IsSummed(std::string_view name) {
    return name == KnownName("items_unread") ||
           (name != KnownName("step") && KindOfMetric(name) == MetricKind::kCounter);
  }

  void AddTo(Metrics& sums) const {
    for (const auto& [name, value] : values_) {
      const auto* const count = std::get_if<std::int64_t>(&value);
      if (count == nullptr || !IsSummed(name)) continue;
      auto& sum = std::get<std::int64_t>(sums.try_emplace(name, std::int64_t{0}).first->second);
      std::int64_t added = 0;
      // A program may report any number by these names.
      if (!__builtin_add_overflow(sum, *count, &added)) sum = added;
    }
  }

  Metrics values_;
  Metrics before_;
  std::int64_t left_out_ = 0;
  bool changed_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_LATEST_METRICS_H_
