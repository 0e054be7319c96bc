#include "parameter_server/clocks.h"

#include <algorithm>

namespace tfos::parameter_server {

const Clocks::Worker& Clocks::Slowest() const {
  return std::ranges::min_element(workers_, {},
                                  [](const auto& entry) { return entry.second.clock; })
      ->second;
}

void Clocks::Join(std::uint64_t worker, const std::string& name, std::uint64_t clock) {
  if (workers_.contains(worker)) return;
  if (!workers_.empty()) clock = std::max(clock, Slowest().clock);
  workers_[worker] = {.name = name, .clock = clock};
}

void Clocks::Advance(std::uint64_t worker) {
  const auto it = workers_.find(worker);
  if (it != workers_.end()) ++it->second.clock;
}

std::uint64_t Clocks::clock(std::uint64_t worker) const {
  const auto it = workers_.find(worker);
  return it == workers_.end() ? 0 : it->second.clock;
}

std::optional<Clocks::Worker> Clocks::WaitsFor(std::uint64_t worker,
                                               std::uint64_t staleness) const {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return std::nullopt;
  const Worker& slowest = Slowest();
  if (it->second.clock - slowest.clock <= staleness) return std::nullopt;
  return slowest;
}

}  // namespace tfos::parameter_server
