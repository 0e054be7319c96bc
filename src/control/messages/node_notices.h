#ifndef TFOS_CONTROL_MESSAGES_NODE_NOTICES_H_
#define TFOS_CONTROL_MESSAGES_NODE_NOTICES_H_

#include <cstddef>
#include <map>
#include <string>

#include "control/messages/parts/shared_messages.h"

namespace tfos::control {

/// What the coordinator has said of other nodes and a node may ask for at any time. Those
/// are the nodes whose executors Spark is about to take away, and where nodes run that came in
/// place of lost ones. What it holds is bounded, whatever comes: `kMost` nodes of each kind, and
/// `kLongestText` bytes of a text.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none; what is too much is left out.
class NodeNotices {
 public:
  static constexpr std::size_t kMost = 16'384;
  static constexpr std::size_t kLongestText = 4096;

  void Add(const NodeLeaving& notice);
  void Add(const NodeMoved& notice);

  /// Why Spark takes nodes away, by the number of the node.
  const std::map<int, std::string>& reasons() const { return reasons_; }
  /// By number.
  const std::map<int, NodeMoved>& moved() const { return moved_; }

 private:
  std::map<int, std::string> reasons_;
  std::map<int, NodeMoved> moved_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_NODE_NOTICES_H_
