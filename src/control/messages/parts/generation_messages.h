#ifndef TFOS_CONTROL_MESSAGES_PARTS_GENERATION_MESSAGES_H_
#define TFOS_CONTROL_MESSAGES_PARTS_GENERATION_MESSAGES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "control/messages/parts/message_text.h"

// What coordinator and nodes tell each other when nodes that train together are lost, or join.
//
// Owner and lifetime: values. Threads: plain data. docs/formats/generations.md says what follows
// from which.
namespace tfos::control {

/// The coordinator gathers the members of this generation: nothing of an earlier one can end any
/// more.
struct Regroup {
  static constexpr std::string_view kType = "regroup";
  int generation = 0;
  /// For people.
  std::string reason;

  friend bool operator==(const Regroup&, const Regroup&) = default;
};

struct GroupMember {
  /// As NodeInfo has it.
  int rank = 0;
  /// For messages, such as `worker:1 on host b`.
  std::string name;
  std::string address;
  int port = 0;

  friend bool operator==(const GroupMember&, const GroupMember&) = default;
};

/// The members of a generation.
struct FormedGroup {
  static constexpr std::string_view kType = "group";
  int generation = 0;
  /// The most transactions that a member has returned from.
  std::int64_t committed = 0;
  /// In the order of their ranks.
  std::vector<GroupMember> members;
  /// All who had been members before were after a step, so newcomers may be among these now.
  bool admits = false;

  friend bool operator==(const FormedGroup&, const FormedGroup&) = default;
};

/// A node has given up all earlier generations, and waits for the members of this one.
struct GroupReady {
  static constexpr std::string_view kType = "ready";
  int generation = 0;
  std::int64_t committed = 0;
  /// Its program has ended: it will be no member.
  bool leaves = false;
  std::string reason;
  /// It is after a step, where newcomers may come in.
  bool admits = false;
  /// 2: it has no state. 1: it has, once it has returned from what it has computed. 0: it has.
  int lacks = 0;
};

/// The coordinator wants the members to meet after their next step.
struct Meet {
  static constexpr std::string_view kType = "meet";
  std::string reason;
};

/// The node will be a member of no generation any more.
struct NoGroup {
  static constexpr std::string_view kType = "no_group";
  std::string reason;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_GENERATION_MESSAGES_H_
