#ifndef TFOS_CONTROL_LINK_COORDINATOR_DOOR_H_
#define TFOS_CONTROL_LINK_COORDINATOR_DOOR_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/crypto/secret.h"
#include "net/handshake/protocol.h"
#include "net/resolve.h"
#include "net/stream.h"
#include "tfos/status.h"

namespace tfos::control {

/// A connection to the coordinator after its handshake.
struct OpenedDoor {
  std::unique_ptr<net::Stream> stream;
  std::string local_address;  ///< At which the coordinator's host saw this end.
};

/// How an agent gets to the coordinator. A value.
struct CoordinatorDoor {
  std::string address;
  std::uint16_t port = 0;
  Secret key;  ///< For `join`.
  net::Encryption encryption = net::Encryption::kBetweenHosts;
  std::uint32_t node_id = 0;
  /// To look up the address, again to connect, and again to shake hands.
  std::chrono::milliseconds connect_timeout{30'000};
  net::Lookup lookup = ::getaddrinfo;

  /// Connects; both ends prove that they have the key. Errors: reconnect with the reason.
  /// `generation`: what the protocol takes it for.
  boost::asio::awaitable<Result<OpenedDoor>> Open(boost::asio::any_io_executor executor,
                                                  net::Protocol protocol,
                                                  std::uint32_t generation = 0) const;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_COORDINATOR_DOOR_H_
