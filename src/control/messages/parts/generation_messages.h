#ifndef TFOS_CONTROL_MESSAGES_PARTS_GENERATION_MESSAGES_H_
#define TFOS_CONTROL_MESSAGES_PARTS_GENERATION_MESSAGES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "control/messages/parts/message_text.h"

// What coordinator and nodes tell each other when nodes that train together are lost.
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
  /// Among the nodes that train, for the cluster's life.
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
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_GENERATION_MESSAGES_H_
