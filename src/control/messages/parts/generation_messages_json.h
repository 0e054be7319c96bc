#ifndef TFOS_CONTROL_MESSAGES_PARTS_GENERATION_MESSAGES_JSON_H_
#define TFOS_CONTROL_MESSAGES_PARTS_GENERATION_MESSAGES_JSON_H_

#include <limits>

#include "control/messages/parts/generation_messages.h"
#include "control/messages/parts/message_json.h"
#include "control/messages/parts/node_info_json.h"

// The fields of generation_messages.h as JSON. Only for the sources of messages.
namespace tfos::control {

inline constexpr JsonRange kGeneration = {0, std::numeric_limits<int>::max() - 1};

template <typename F, DescribedAs<Regroup> M>
void Describe(F& f, M& m) {
  f.Required("generation", m.generation, kGeneration);
  f.Required("reason", m.reason);
}

template <typename F, DescribedAs<GroupMember> M>
void Describe(F& f, M& m) {
  f.Required("rank", m.rank, kNodeId);
  f.Required("name", m.name);
  f.Required("address", m.address);
  f.Required("port", m.port, kPort);
}

template <typename F, DescribedAs<FormedGroup> M>
void Describe(F& f, M& m) {
  f.Required("generation", m.generation, kGeneration);
  f.Required("committed", m.committed, kSize);
  f.Required("members", m.members);
  f.Optional("admits", m.admits);
}

template <typename F, DescribedAs<GroupReady> M>
void Describe(F& f, M& m) {
  f.Required("generation", m.generation, kGeneration);
  f.Required("committed", m.committed, kSize);
  f.Required("leaves", m.leaves);
  f.Required("reason", m.reason, kText);
  f.Optional("admits", m.admits);
  f.Optional("lacks", m.lacks, JsonRange{0, 2});
}

template <typename F, DescribedAs<Meet> M>
void Describe(F& f, M& m) {
  f.Required("reason", m.reason);
}

template <typename F, DescribedAs<NoGroup> M>
void Describe(F& f, M& m) {
  f.Required("reason", m.reason);
}

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_GENERATION_MESSAGES_JSON_H_
