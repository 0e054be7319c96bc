#ifndef TFOS_CONTROL_COORDINATOR_HISTORY_EVENT_LOG_H_
#define TFOS_CONTROL_COORDINATOR_HISTORY_EVENT_LOG_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "control/messages/parts/node_info.h"

namespace tfos::control {

/// What has happened in a cluster, in words for people: the latest kMostEvents of it.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none. Units: times count from the
/// start of the cluster.
class EventLog {
 public:
  static constexpr std::size_t kMostEvents = 2000;
  static constexpr std::size_t kMostTextBytes = 500;  ///< Longer ones are cut.

  /// `node_id` -1: of no node.
  void Add(std::chrono::milliseconds now, int node_id, std::string text);
  /// Adds a node's state, if it has another one or is about to leave. What it does in a state is
  /// not an event: of many nodes that would push out all else.
  void AddState(std::chrono::milliseconds now, const NodeInfo& node);

  /// A list of JSON: the events from number `from` on, the oldest first. They count from 0.
  std::string Json(std::int64_t from) const;
  /// The number of all events there were.
  std::int64_t count() const { return forgotten_ + static_cast<std::int64_t>(events_.size()); }

 private:
  struct Event {
    std::chrono::milliseconds time;
    int node_id;
    std::string text;
  };

  struct LastState {
    std::optional<NodeState> state;
    std::string leaving;
  };

  std::deque<Event> events_;
  std::int64_t forgotten_ = 0;
  std::vector<LastState> last_states_;  // by node
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_HISTORY_EVENT_LOG_H_
