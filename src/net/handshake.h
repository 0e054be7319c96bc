#ifndef TFOS_NET_HANDSHAKE_H_
#define TFOS_NET_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/crypto/secret.h"
#include "base/time/wait.h"
#include "net/handshake/protocol.h"
#include "tfos/status.h"

// Both ends of a new connection prove that they know the cluster's token and agree on who they are,
// as docs/formats/tensor-protocol.md has it.
//
// Threads: any. Errors: bad input when the other end isn't a member; what the socket says; retry
// later when the deadline passes.

namespace tfos::net {

/// The other end, once both have proved who they are.
struct Peer {
  Numbers numbers;
  Secret key;  ///< That these two ends have for this connection, and nobody else has.
};

/// The connecting end.
Result<Peer> Introduce(int socket, const Protocol& protocol, const Secret& token, Numbers numbers,
                       const Wait& wait);

/// The accepting end: done once the other one has proved that it may come and `accepts` has agreed
/// to its numbers.
Result<Peer> Recognize(int socket, const Protocol& protocol, const Secret& token,
                       const std::function<Status(Numbers)>& accepts, const Wait& wait);

}  // namespace tfos::net

#endif  // TFOS_NET_HANDSHAKE_H_
