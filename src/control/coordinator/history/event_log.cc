#include "control/coordinator/history/event_log.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/text/json_fields.h"

namespace tfos::control {

void EventLog::Add(std::chrono::milliseconds now, int node_id, std::string text) {
  if (text.size() > kMostTextBytes) {
    text.resize(kMostTextBytes);  // WriteJsonLine mends a character that is cut.
    text += " ...";
  }
  if (events_.size() == kMostEvents) {
    events_.pop_front();
    ++forgotten_;
  }
  events_.push_back({.time = now, .node_id = node_id, .text = std::move(text)});
}

void EventLog::AddState(std::chrono::milliseconds now, const NodeInfo& node) {
  const auto at = static_cast<std::size_t>(node.node_id);
  if (last_states_.size() <= at) last_states_.resize(at + 1);
  LastState& last = last_states_[at];
  if (last.state == node.state && last.leaving == node.leaving) return;
  last = {.state = node.state, .leaving = node.leaving};
  std::string text =
      fmt::format("{}:{} {}{}{}", node.job_name, node.task_index, NodeStateName(node.state),
                  node.detail.empty() ? "" : ": ", node.detail);
  if (!node.leaving.empty()) text += fmt::format(" (leaving: {})", node.leaving);
  Add(now, node.node_id, std::move(text));
}

std::string EventLog::Json(std::int64_t from) const {
  tfos::Json list = tfos::Json::array();
  for (std::int64_t number = std::max(from, forgotten_); number < count(); ++number) {
    const Event& event = events_[static_cast<std::size_t>(number - forgotten_)];
    list.push_back(
        {{"time_ms", event.time.count()}, {"node_id", event.node_id}, {"text", event.text}});
  }
  return WriteJsonLine(list);
}

}  // namespace tfos::control
