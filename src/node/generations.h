#ifndef TFOS_NODE_GENERATIONS_H_
#define TFOS_NODE_GENERATIONS_H_

#include <functional>
#include <optional>
#include <string>

#include "base/thread/mutex.h"
#include "base/time/wait.h"
#include "control/messages/parts/generation_messages.h"
#include "tfos/status.h"

namespace tfos::node {

/// What the coordinator has said of the generations of this node's group
/// (docs/formats/generations.md).
///
/// Owner and lifetime: shared by the link to the agent, which brings the messages, and the group.
/// Threads: any. Errors: Status; nothing here throws.
class Generations {
 public:
  using Sender = std::function<Status(const control::GroupReady&)>;

  explicit Generations(Sender send) : send_(std::move(send)) {}

  void On(const control::Regroup& regroup);
  void On(const control::FormedGroup& group);
  void On(const control::NoGroup& none);
  void OnMeet();

  /// Whether the coordinator wants the members to meet, and they have not done so since.
  bool WantsToMeet() const;

  /// Why nothing of `generation` can end any more; OK if it can.
  Status Check(int generation) const;
  /// Says that the node is ready, and waits for the members of that generation or a later one.
  /// Errors: what `check` returns, those of the link, and reconnect, with the coordinator's reason,
  /// when this node is to be a member of no generation any more.
  Result<control::FormedGroup> AwaitNext(control::GroupReady ready, const InterruptCheck& check);
  /// Says that the node will be no member any more.
  Status Leave(const control::GroupReady& ready) { return send_(ready); }

 private:
  const Sender send_;
  mutable Mutex mutex_;
  CondVar changed_;
  int opened_ TFOS_GUARDED_BY(mutex_) = 0;  ///< The latest generation.
  std::string reason_ TFOS_GUARDED_BY(mutex_);
  control::FormedGroup formed_ TFOS_GUARDED_BY(mutex_);
  bool meet_ TFOS_GUARDED_BY(mutex_) = false;
  std::optional<std::string> none_ TFOS_GUARDED_BY(mutex_);  ///< Why there is no group any more.
};

}  // namespace tfos::node

#endif  // TFOS_NODE_GENERATIONS_H_
