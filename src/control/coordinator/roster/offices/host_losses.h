#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_HOST_LOSSES_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_HOST_LOSSES_H_

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/time/deadline.h"

namespace tfos::control {

/// Which hosts are avoided, as nodes were lost there again and again. A loss is forgotten after a
/// period. Those of one moment, as when an executor dies with its nodes, are one.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none.
class HostLosses {
 public:
  /// A host is avoided once `limit` nodes were lost there within `period`. 0: none is.
  HostLosses(int limit, Clock::Duration period) : limit_(limit), period_(period) {}

  void Add(const std::string& host, Clock::TimePoint now);
  /// The time between the losses for which `host` is avoided; nothing if it isn't.
  std::optional<Clock::Duration> Look(const std::string& host, Clock::TimePoint now) const;
  int limit() const { return limit_; }

 private:
  int limit_;
  Clock::Duration period_;
  /// By host: when the last nodes were lost there, as many as `limit_`, the oldest first.
  std::map<std::string, std::deque<Clock::TimePoint>> losses_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_HOST_LOSSES_H_
