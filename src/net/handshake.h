#ifndef TFOS_NET_HANDSHAKE_H_
#define TFOS_NET_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/crypto/secret.h"
#include "base/time/wait.h"
#include "tfos/status.h"

// Both ends of a new connection prove that they know the cluster's token and agree on who they are,
// as docs/formats/tensor-protocol.md has it.
//
// Threads: any. Errors: bad input when the other end isn't a member; what the socket says; retry
// later when the deadline passes.

namespace tfos::net {

/// What a connection is for. A proof for one is none for another.
struct Protocol {
  std::string_view magic;  ///< 8 bytes.
  std::uint16_t version = 0;
  std::string_view name;  ///< For the proofs and for messages.
};

/// Whom the two ends take themselves and each other for.
struct Numbers {
  std::uint32_t connecting = 0;
  std::uint32_t accepting = 0;
};

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

/// Fills `room`. Reconnect when the other end closes before.
Status ReceiveAll(int socket, std::span<std::byte> room, const Wait& wait);
/// Sends all of `data`.
Status SendAll(int socket, std::span<const std::byte> data, const Wait& wait);

}  // namespace tfos::net

#endif  // TFOS_NET_HANDSHAKE_H_
