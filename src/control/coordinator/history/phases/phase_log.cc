#include "control/coordinator/history/phases/phase_log.h"

#include <utility>

#include "base/text/json_fields.h"

namespace tfos::control {

void PhaseLog::Note(std::chrono::milliseconds now, int node_id, std::string_view state,
                    std::string_view text) {
  const std::string_view shown = text.substr(0, kMostTextBytes);  // WriteJsonLine mends its end.
  std::deque<Phase>& phases = phases_[node_id];
  if (!phases.empty() && phases.back().state == state && phases.back().text == shown) return;
  phases.push_back({now, std::string(state), std::string(shown)});
  if (phases.size() <= kMostPhases) return;
  // One in place of those that go, so the phase before them does not seem to last.
  Phase& gone = phases[kFirstPhases];
  gone.state = "forgotten";
  gone.text.clear();
  phases.erase(phases.begin() + kFirstPhases + 1);
}

std::string PhaseLog::Json(const std::vector<int>& nodes) const {
  tfos::Json all = tfos::Json::object();
  const auto add = [&](int node_id) {
    const auto found = phases_.find(node_id);
    if (found == phases_.end()) return;
    tfos::Json list = tfos::Json::array();
    for (const Phase& phase : found->second) {
      list.push_back(tfos::Json::array({phase.begin.count(), phase.state, phase.text}));
    }
    all[std::to_string(node_id)] = std::move(list);
  };
  add(kDriver);
  for (const int node_id : nodes) add(node_id);
  return WriteJsonLine(all);
}

}  // namespace tfos::control
