#ifndef TFOS_CONTROL_COORDINATOR_HISTORY_EVENT_LOG_H_
#define TFOS_CONTROL_COORDINATOR_HISTORY_EVENT_LOG_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
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
  /// The same of a node, whose name begins the text once its state was added: "worker:1: ...".
  void AddOfNode(std::chrono::milliseconds now, int node_id, std::string_view text);
  /// Adds a node's state, if it has another one or is about to leave. What it does in a state is
  /// not an event: of many nodes that would push out all else.
  void AddState(std::chrono::milliseconds now, const NodeInfo& node);

  /// An epoch of a queue was fed; they count from 1. The next epochs change this event, until
  /// something else happens: of short epochs that would push out all else.
  void AddEpoch(std::chrono::milliseconds now, const std::string& queue, std::int64_t epoch);

  /// A list of JSON: the events that were added or changed from change `from` on, in the order of
  /// their last change. Changes count from 0. Each event keeps its `number`, which counts from 0,
  /// too.
  std::string Json(std::int64_t from) const;
  /// How often an event was added or changed.
  std::int64_t changes() const { return changes_; }

 private:
  struct Event {
    std::chrono::milliseconds time;
    int node_id;
    std::string text;
    std::int64_t number = 0;
    std::int64_t change = 0;
    // Of an event about epochs:
    std::string queue = {};
    std::int64_t first_epoch = 0;
    std::int64_t last_epoch = 0;
  };

  /// Takes it out; nullopt if there is none that can be changed.
  std::optional<Event> TakeEpochs(const std::string& queue, std::int64_t before);
  void Append(Event event);

  struct LastState {
    std::optional<NodeState> state;
    std::string leaving;
    std::string name;
  };

  std::deque<Event> events_;
  std::int64_t added_ = 0;
  std::int64_t changes_ = 0;
  std::vector<LastState> last_states_;  // by node
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_HISTORY_EVENT_LOG_H_
