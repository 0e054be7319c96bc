#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_GENERATION_OFFICE_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_GENERATION_OFFICE_H_

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
  /// By node id: those that train, are not lost and have not ended.
  using Nodes = std::map<int, GroupMember>;

  /// What nodes are to be told, if anything; and why the cluster fails, if it does.
  struct Outcome {
    std::set<int> members;              ///< That there are now.
    std::optional<Regroup> regroup;     ///< For all members.
    std::optional<FormedGroup> formed;  ///< For all members of it.
    std::optional<Meet> meet;           ///< For all members.
    std::set<int> came;                 ///< Newcomers that are members of `formed`.
    /// That came, and that the others can't reach. They are lost now: `Lost` is to be called.
    std::set<int> unreachable;
    std::optional<std::string> failure;  ///< For people.
  };

  /// `least`: so many that train are to be there before members that meet go on.
  explicit GenerationOffice(int least = 0) : least_(least) {}

  /// The cluster has formed: these are the members of generation 0.
  void Begin(const Nodes& members);
  /// A node was lost, for `reason`.
  Outcome Lost(int node_id, const std::string& reason, const Nodes& nodes);
  /// A node says that it is ready.
  Outcome Ready(int node_id, const GroupReady& ready, const Nodes& nodes);
  /// A node has ended in order.
  Outcome Ended(int node_id, const Nodes& nodes);

  /// Whether newcomers may come in: at first they may. Where they may not, they wait, and so few
  /// members as there are go on.
  Outcome SetOpen(bool is_open, const Nodes& nodes);
  bool is_open() const { return is_open_; }

  int generation() const { return generation_; }
  bool gathering() const { return gathering_; }
  /// Whether it waits for other members while they gather.
  bool IsReady(int node_id) const { return gathering_ && ready_.contains(node_id); }
  /// Whether the node is or was in a generation, and was not lost since then.
  bool IsMember(int node_id) const { return members_.contains(node_id); }
  /// Whether it waits to come in.
  bool Waits(int node_id) const { return newcomers_.contains(node_id); }
  bool anyone_waits() const { return !newcomers_.empty(); }
  /// How many are there to train: members, also those that have ended in order.
  int there() const { return static_cast<int>(members_.size()); }
  bool is_below() const { return there() < least_; }
  /// Whether all that were members, and were not lost, have ended or left.
  bool is_over(const Nodes& nodes) const { return Current(nodes).empty(); }
  /// Which nodes wait for which, for people; empty if none does.
  std::string DescribeWait(const Nodes& nodes) const;

 private:
  /// What a node said last.
  struct Answer {
    std::int64_t committed = 0;
    bool admits = false;
    int lacks = 0;
  };

  void Open(const std::string& reason, Outcome& outcome);
  void FormIfComplete(const Nodes& nodes, Outcome& outcome);
  /// What members are asked to do if anybody waits.
  void AskToMeet(const Nodes& nodes, Outcome& outcome) const;
  /// Those of `nodes` that are members of the next generation, apart from newcomers.
  Nodes Current(const Nodes& nodes) const;
  Outcome Finish(const Nodes& nodes, Outcome outcome) const;

  int least_;
  int generation_ = 0;
  bool gathering_ = false;
  bool is_open_ = true;
  std::set<int> members_;
  std::map<int, Answer> ready_;  ///< For the generation that is gathered.
  std::set<int> newcomers_;      ///< That wait to come in.
  std::set<int> left_;           ///< Will be members of none any more.
  std::int64_t committed_ = 0;
  /// Generations that were formed without a loss since this many transactions were committed.
  std::int64_t committed_before_ = -1;
  int in_vain_ = 0;
  bool lost_ = false;  ///< A member, since the last generation was formed.
  std::string reason_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_OFFICES_GENERATION_OFFICE_H_
