#include "control/coordinator/roster/offices/host_losses.h"

#include <cstddef>

namespace tfos::control {

void HostLosses::Add(const std::string& host, Clock::TimePoint now) {
  if (limit_ <= 0) return;
  std::deque<Clock::TimePoint>& times = losses_[host];
  times.push_back(now);
  if (times.size() > static_cast<std::size_t>(limit_)) times.pop_front();
}

std::optional<HostLosses::Avoided> HostLosses::Look(const std::string& host,
                                                    Clock::TimePoint now) const {
  const auto found = losses_.find(host);
  if (found == losses_.end()) return std::nullopt;
  const std::deque<Clock::TimePoint>& times = found->second;
  if (times.size() < static_cast<std::size_t>(limit_)) return std::nullopt;
  // Once it is avoided, nothing is lost there that would make it longer.
  const Clock::Duration since_first = now - times.front();
  if (since_first >= period_) return std::nullopt;
  return Avoided{
      .since_first = since_first, .since_last = now - times.back(), .left = period_ - since_first};
}

}  // namespace tfos::control
