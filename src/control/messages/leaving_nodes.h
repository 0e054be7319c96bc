#ifndef TFOS_CONTROL_MESSAGES_LEAVING_NODES_H_
#define TFOS_CONTROL_MESSAGES_LEAVING_NODES_H_

#include <cstddef>
#include <map>
#include <string>

#include "control/messages/parts/shared_messages.h"

namespace tfos::control {

/// The nodes whose executors Spark is about to take away, as far as the coordinator has said so.
/// What it holds is bounded, whatever comes: `kMost` nodes, and `kLongestReason` bytes of a reason.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none; what is too much is left out.
class LeavingNodes {
 public:
  static constexpr std::size_t kMost = 16'384;
  static constexpr std::size_t kLongestReason = 4096;

  void Add(const NodeLeaving& notice);

  /// By number, and why.
  const std::map<int, std::string>& reasons() const { return reasons_; }

 private:
  std::map<int, std::string> reasons_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_LEAVING_NODES_H_
