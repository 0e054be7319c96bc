#ifndef TFOS_CONTROL_ASK_HTTP_GET_H_
#define TFOS_CONTROL_ASK_HTTP_GET_H_

#include <cstdint>
#include <string>

#include "base/crypto/secret.h"
#include "base/time/wait.h"
#include "net/handshake/protocol.h"
#include "tfos/status.h"

namespace tfos::control {

/// Where the coordinator answers, and what opens it.
struct CoordinatorAddress {
  std::string host;
  std::uint16_t port = 0;
  Secret key;  ///< For `ask`.
  net::Encryption encryption = net::Encryption::kBetweenHosts;
};

/// What the coordinator answered.
struct HttpReply {
  unsigned status = 0;
  std::string body;
};

/// Asks for one resource, over a connection of its own and through no proxy: the coordinator is
/// inside the cluster. `target` begins with a slash. Threads: any.
/// Both ends prove first that they have the key.
/// Errors: those of the connection and the handshake; kRetryLater when the deadline passes;
/// kReconnect for an answer that ends early or is not HTTP.
Result<HttpReply> HttpGet(const CoordinatorAddress& coordinator, const std::string& target,
                          const Wait& wait);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_ASK_HTTP_GET_H_
