#ifndef TFOS_CONTROL_ASK_HTTP_GET_H_
#define TFOS_CONTROL_ASK_HTTP_GET_H_

#include <cstdint>
#include <string>

#include "base/crypto/secret.h"
#include "base/time/wait.h"
#include "net/handshake/protocol.h"
#include "tfos/status.h"

namespace tfos::control {

/// How somebody comes to the coordinator.
enum class Door {
  kAsk,      ///< Shakes hands with the key for `ask`.
  kOperate,  ///< Shakes hands with the key for `operate`.
  kRead,     ///< Sends the key for `read`, over a connection that is open to listeners.
};

/// Where the coordinator answers, and what opens it.
struct CoordinatorAddress {
  std::string host;
  std::uint16_t port = 0;
  Secret key;
  net::Encryption encryption = net::Encryption::kBetweenHosts;
  Door door = Door::kAsk;
};

/// What the coordinator answered.
struct HttpReply {
  unsigned status = 0;
  std::string body;
};

/// Asks for one resource, over a connection of its own and through no proxy: the coordinator is
/// inside the cluster. `target` begins with a slash. Threads: any.
/// Both ends prove first that they have the key, unless it goes by Door::kRead.
/// Errors: those of the connection and the handshake; kRetryLater when the deadline passes;
/// kReconnect for an answer that ends early or is not HTTP.
Result<HttpReply> HttpGet(const CoordinatorAddress& coordinator, const std::string& target,
                          const Wait& wait);
/// The same for what is to be done.
Result<HttpReply> HttpPost(const CoordinatorAddress& coordinator, const std::string& target,
                           const Wait& wait);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_ASK_HTTP_GET_H_
