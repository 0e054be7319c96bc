#include "control/coordinator/history/event_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/format.h"
#include "base/text/json_fields.h"

namespace tfos::control {
namespace {

constexpr int kNoNode = -1;

}  // namespace

void EventLog::Add(std::chrono::milliseconds now, int node_id, std::string text) {
  Append({.time = now, .node_id = node_id, .text = std::move(text), .number = added_++});
}

void EventLog::AddOfNode(std::chrono::milliseconds now, int node_id, std::string_view text) {
  const auto at = static_cast<std::size_t>(node_id);
  const bool named = at < last_states_.size() && !last_states_[at].name.empty();
  Add(now, node_id, named ? fmt::format("{}: {}", last_states_[at].name, text) : std::string(text));
}

void EventLog::Append(Event event) {
  if (event.text.size() > kMostTextBytes) {
    event.text.resize(kMostTextBytes);  // WriteJsonLine mends a character that is cut.
    event.text += " ...";
  }
  if (events_.size() == kMostEvents) events_.pop_front();
  event.change = changes_++;
  events_.push_back(std::move(event));
}

std::optional<EventLog::Event> EventLog::TakeEpochs(const std::string& queue, std::int64_t before) {
  // The queues may be fed in turn.
  for (auto at = events_.rbegin(); at != events_.rend() && at->first_epoch > 0; ++at) {
    if (at->queue != queue) continue;
    if (at->last_epoch + 1 != before) return std::nullopt;
    Event event = std::move(*at);
    events_.erase(std::next(at).base());
    return event;
  }
  return std::nullopt;
}

void EventLog::AddEpoch(std::chrono::milliseconds now, const std::string& queue,
                        std::int64_t epoch) {
  std::optional<Event> event = TakeEpochs(queue, epoch);
  if (event.has_value()) {
    event->time = now;
    event->text =
        fmt::format("epochs {} to {} of the queue '{}' were fed", event->first_epoch, epoch, queue);
  } else {
    event = {.time = now,
             .node_id = kNoNode,
             .text = fmt::format("epoch {} of the queue '{}' was fed", epoch, queue),
             .number = added_++,
             .queue = queue,
             .first_epoch = epoch};
  }
  event->last_epoch = epoch;
  Append(*std::move(event));
}

void EventLog::AddState(std::chrono::milliseconds now, const NodeInfo& node) {
  const auto at = static_cast<std::size_t>(node.node_id);
  if (last_states_.size() <= at) last_states_.resize(at + 1);
  LastState& last = last_states_[at];
  if (last.state == node.state && last.leaving == node.leaving) return;
  last = {.state = node.state,
          .leaving = node.leaving,
          .name = fmt::format("{}:{}", node.job_name, node.task_index)};
  std::string text = fmt::format("{} {}{}{}", last.name, NodeStateName(node.state),
                                 node.detail.empty() ? "" : ": ", node.detail);
  if (!node.leaving.empty()) text += fmt::format(" (leaving: {})", node.leaving);
  Add(now, node.node_id, std::move(text));
}

std::string EventLog::Json(std::int64_t from) const {
  tfos::Json list = tfos::Json::array();
  const auto first = std::ranges::lower_bound(events_, from, {}, &Event::change);
  for (auto event = first; event != events_.end(); ++event) {
    list.push_back({{"number", event->number},
                    {"time_ms", event->time.count()},
                    {"node_id", event->node_id},
                    {"text", event->text}});
  }
  return WriteJsonLine(list);
}

}  // namespace tfos::control
