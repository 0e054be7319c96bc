#ifndef TFOS_DATASETS_NODE_MEMBERSHIP_H_
#define TFOS_DATASETS_NODE_MEMBERSHIP_H_

#include <cstdint>
#include <memory>

#include "collective/membership.h"
#include "node/generations.h"

namespace tfos::datasets {

/// The members of a node's group as the node's agent tells them.
///
/// Owner and lifetime: of the group. Threads: any. Errors: as node::Generations.
class NodeMembership final : public collective::Membership {
 public:
  explicit NodeMembership(std::shared_ptr<node::Generations> generations)
      : generations_(std::move(generations)) {}

  Status Check(std::uint32_t generation) const override {
    return generations_->Check(static_cast<int>(generation));
  }
  Result<Formed> AwaitNext(const Ready& ready, const InterruptCheck& check) override {
    TFOS_ASSIGN_OR_RETURN(const control::FormedGroup group,
                          generations_->AwaitNext(MessageOf(ready, /*leaves=*/false), check));
    Formed formed;
    formed.generation = static_cast<std::uint32_t>(group.generation);
    formed.committed = static_cast<std::uint64_t>(group.committed);
    formed.admits = group.admits;
    for (const control::GroupMember& member : group.members) {
      formed.ranks.push_back(static_cast<std::uint32_t>(member.rank));
      formed.members.push_back({.name = member.name,
                                .address = member.address,
                                .port = static_cast<std::uint16_t>(member.port)});
    }
    return formed;
  }
  bool WantsToMeet() const override { return generations_->WantsToMeet(); }
  Status Leave(const Ready& ready) override {
    return generations_->Leave(MessageOf(ready, /*leaves=*/true));
  }

 private:
  static control::GroupReady MessageOf(const Ready& ready, bool leaves) {
    return {.generation = static_cast<int>(ready.generation),
            .committed = static_cast<std::int64_t>(ready.committed),
            .leaves = leaves,
            .reason = ready.reason,
            .admits = ready.admits,
            .lacks = ready.lacks};
  }

  const std::shared_ptr<node::Generations> generations_;
};

}  // namespace tfos::datasets

#endif  // TFOS_DATASETS_NODE_MEMBERSHIP_H_
