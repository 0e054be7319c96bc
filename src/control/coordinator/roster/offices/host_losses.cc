#include "control/coordinator/roster/offices/host_losses.h"

#include <chrono>
#include <cstddef>

namespace tfos::control {
namespace {

/// No node that comes again is lost so soon.
constexpr std::chrono::seconds kMoment{2};

}  // namespace

void HostLosses::Add(const std::string& host, Clock::TimePoint now) {
  if (limit_ <= 0) return;
  std::deque<Clock::TimePoint>& times = losses_[host];
  if (!times.empty() && now - times.back() < kMoment) return;
  times.push_back(now);
  if (times.size() > static_cast<std::size_t>(limit_)) times.pop_front();
}

std::optional<Clock::Duration> HostLosses::Look(const std::string& host,
                                                Clock::TimePoint now) const {
  const auto found = losses_.find(host);
  if (found == losses_.end()) return std::nullopt;
  const std::deque<Clock::TimePoint>& times = found->second;
  if (times.size() < static_cast<std::size_t>(limit_)) return std::nullopt;
  if (now - times.front() >= period_) return std::nullopt;
  return times.back() - times.front();
}

}  // namespace tfos::control
