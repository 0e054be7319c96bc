#ifndef TFOS_CONTROL_COORDINATOR_HISTORY_PHASES_PHASE_LOG_H_
#define TFOS_CONTROL_COORDINATOR_HISTORY_PHASES_PHASE_LOG_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tfos::control {

/// What the driver and each node did when: the phases of a run, such as "importing TensorFlow".
/// A phase lasts until the next one of the same node begins.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none. Units: times count from the
/// start of the cluster.
class PhaseLog {
 public:
  static constexpr int kDriver = -1;              ///< In place of a node.
  static constexpr std::size_t kMostPhases = 64;  ///< Of a node.
  /// Of these, the first ones, which stay: how a run began. Of more, the oldest of the others go.
  static constexpr std::size_t kFirstPhases = 16;
  static constexpr std::size_t kMostTextBytes = 80;

  /// `state` is a node's state, or what is wrong with it: "silent", "stuck", "diverged". `text`
  /// says more, and may be empty. The phase that lasts already begins no second time.
  void Note(std::chrono::milliseconds now, int node_id, std::string_view state,
            std::string_view text);

  /// An object of JSON: by node, as text, [time in ms, state, text] of each phase, the oldest
  /// first. Where phases have gone, one of the state "forgotten" has their time. The driver is in
  /// it, and of the nodes those that are asked for.
  std::string Json(const std::vector<int>& nodes) const;

 private:
  struct Phase {
    std::chrono::milliseconds begin;
    std::string state;
    std::string text;
  };

  std::map<int, std::deque<Phase>> phases_;  // by node
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_HISTORY_PHASES_PHASE_LOG_H_
