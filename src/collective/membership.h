#ifndef TFOS_COLLECTIVE_MEMBERSHIP_H_
#define TFOS_COLLECTIVE_MEMBERSHIP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/time/wait.h"
#include "collective/mesh/member.h"
#include "tfos/status.h"

namespace tfos::collective {

/// Where an elastic group learns who belongs to it: what the coordinator says
/// (docs/formats/generations.md).
///
/// Owner and lifetime: shared by a group and what brings the messages. Threads: any.
class Membership {
 public:
  /// What a member says when it has given up a generation.
  struct Ready {
    std::uint32_t generation = 0;  ///< The lowest that it waits for.
    std::uint64_t committed = 0;   ///< Transactions that it has returned from.
    std::string reason;            ///< Why it has given up the one before, for people.
    bool admits = false;           ///< It is after a step, where newcomers may come in.
    int lacks = 0;                 ///< As control::GroupReady has it.
  };
  /// The members of a generation.
  struct Formed {
    std::uint32_t generation = 0;
    std::uint64_t committed = 0;  ///< The most that a member has returned from.
    std::vector<std::uint32_t> ranks;
    std::vector<Member> members;  ///< As many, in the order of their ranks.
    bool admits = false;          ///< All have said so: newcomers may be among them.
  };

  Membership() = default;
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  virtual ~Membership() = default;

  /// Why nothing of `generation` can end any more, as the next one is being gathered; OK if it can.
  virtual Status Check(std::uint32_t generation) const = 0;
  /// Tells the coordinator, and waits for the members of the next generation. Errors: reconnect
  /// when the coordinator can't be told, and what `check` returns.
  virtual Result<Formed> AwaitNext(const Ready& ready, const InterruptCheck& check) = 0;
  /// Whether the coordinator wants the members to meet after their next step.
  virtual bool WantsToMeet() const = 0;
  /// Tells the coordinator that this member will be part of no further generation.
  virtual Status Leave(const Ready& ready) = 0;
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_MEMBERSHIP_H_
