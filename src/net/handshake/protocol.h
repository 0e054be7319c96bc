#ifndef TFOS_NET_HANDSHAKE_PROTOCOL_H_
#define TFOS_NET_HANDSHAKE_PROTOCOL_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "net/stream.h"
#include "tfos/status.h"

// What the two ends of a connection tell each other before anything else
// (docs/formats/handshake.md).

namespace tfos::net {

/// What a connection is for. A key or a proof for one protocol is none for another.
struct Protocol {
  std::string_view magic;  ///< 8 bytes.
  std::uint16_t version = 0;
  std::string_view name;  ///< For the proofs and for messages: "tensors".
};

/// Whom the two ends take themselves and each other for.
struct Numbers {
  std::uint32_t connecting = 0;
  std::uint32_t accepting = 0;
  std::uint32_t generation = 0;  ///< Of what both belong to; 0 where there is only one.
};

/// How the bytes of a connection are protected. The stronger has the larger number.
enum class Channel : std::uint8_t {
  kLocal = 0,  ///< A Unix socket between processes of one user.
  kPlain = 1,  ///< TCP: both ends have proved themselves, and what follows is open to a listener.
  kTls = 2,    ///< TCP with TLS 1.3.
};
std::string_view ChannelName(Channel channel);

/// Which TCP connections are encrypted (`spark.tfos.encrypt`).
enum class Encryption {
  kNever,
  kBetweenHosts,  ///< Those that leave the host: all but those whose two ends have one address.
  kAlways,
};
/// From `false`, `auto` and `true`. Bad input for another word.
Result<Encryption> EncryptionFromWord(std::string_view word);

/// The weakest channel that a connected socket may have. Errors: what the system says.
Result<Channel> LeastChannel(int socket, Encryption encryption);

/// A connection whose two ends have proved who they are.
struct Connection {
  std::unique_ptr<Stream> stream;
  Numbers numbers;
  Channel channel = Channel::kPlain;
  Protocol protocol = {};  ///< That it came by, where a port has several.
};

}  // namespace tfos::net

#endif  // TFOS_NET_HANDSHAKE_PROTOCOL_H_
