#ifndef TFOS_COLLECTIVE_HANDSHAKE_H_
#define TFOS_COLLECTIVE_HANDSHAKE_H_

#include <cstdint>

#include "base/secret.h"
#include "base/wait.h"
#include "tfos/status.h"

// Both ends of a new connection prove that they know the cluster's token and agree on who they are,
// as docs/formats/tensor-protocol.md has it.
//
// Threads: any. Errors: bad input when the other end is no member; what the socket says; retry
// later when the deadline passes.

namespace tfos::collective {

/// The connecting end: member `rank` has connected to member `peer`.
Status Introduce(int socket, const Secret& token, std::uint32_t rank, std::uint32_t peer,
                 const Wait& wait);

/// The accepting end, member `rank`: which member has connected.
Result<std::uint32_t> Recognize(int socket, const Secret& token, std::uint32_t rank,
                                std::uint32_t members, const Wait& wait);

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_HANDSHAKE_H_
