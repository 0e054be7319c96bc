#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_GENERATION_OFFICE_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_GENERATION_OFFICE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "control/messages/parts/generation_messages.h"

namespace tfos::control {

/// Which generation the nodes that train together are in, and when the next one is formed
/// (docs/formats/generations.md). A pure function of what it is told.
///
/// Owner and lifetime: of the Roster; a value. Threads: one at a time. Errors: none; a message that
/// comes late changes nothing.
class GenerationOffice {
 public:
  /// Members by node id: those that train, are not lost and have not ended.
  using Members = std::map<int, GroupMember>;

  /// What members are to be told, if anything; and why the cluster fails, if it does.
  struct Outcome {
    std::optional<Regroup> regroup;      ///< For all members.
    std::optional<FormedGroup> formed;   ///< For all members of it.
    std::optional<std::string> failure;  ///< For people.
  };

  /// A node was lost, for `reason`, and has ceased to be a member.
  Outcome Lost(const std::string& reason, const Members& members);
  /// A member says that it is ready.
  Outcome Ready(int node_id, const GroupReady& ready, const Members& members);
  /// A member has ended in order.
  Outcome MembersChanged(const Members& members);

  int generation() const { return generation_; }
  bool gathering() const { return gathering_; }

 private:
  void Open(const std::string& reason, Outcome& outcome);
  void FormIfComplete(const Members& members, Outcome& outcome);

  int generation_ = 0;
  bool gathering_ = false;
  std::set<int> ready_;  ///< For the generation that is gathered.
  std::set<int> left_;   ///< Will be members of none any more.
  std::int64_t committed_ = 0;
  /// Generations that were formed without a loss since this many transactions were committed.
  std::int64_t committed_before_ = -1;
  int in_vain_ = 0;
  bool lost_ = false;  ///< A member, since the last generation was formed.
  std::string reason_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_GENERATION_OFFICE_H_
