#ifndef TFOS_CONTROL_LINK_SERVER_CONTROL_SERVER_H_
#define TFOS_CONTROL_LINK_SERVER_CONTROL_SERVER_H_

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/crypto/secret.h"
#include "control/host/held_port.h"
#include "control/link/server/control_service.h"
#include "net/handshake/protocol.h"
#include "tfos/status.h"

namespace tfos::control {

/// HTTP and WebSocket on one port (the HTTP library stays behind this interface), by four ways:
///
/// - agents shake hands with the key for `join`, and may open a WebSocket;
/// - Spark's tasks shake hands with the key for `ask`, and may ask for pages;
/// - people who operate the cluster shake hands with the key for `operate`, may ask for pages, and
///   may post;
/// - people and Prometheus speak HTTP at once. They send the key for `read` or, for the metrics,
///   that for `scrape`. TensorBoard's page is among them, which comes through an agent. Everyone
///   else is answered 401 before anything else is looked at.
///
/// Owner and lifetime: borrows the service, which outlives it. Its executor must not run any more
/// once it is destroyed.
/// Threads: those of one single-threaded executor.
/// Errors: a bad peer loses its connection, with one line in the log, and changes nothing else.
/// Strangers (who have not shown a key yet) hold a bounded number of connections and write a
/// bounded number of lines.
class ControlServer {
 public:
  struct Options {
    std::string bind_address = "0.0.0.0";
    PortRange ports;
    /// The cluster's token, of which the keys are made.
    Secret token = {};
    std::string scrape_token = {};  ///< In place of the key for `scrape`. Empty: that one.
    net::Encryption encryption = net::Encryption::kBetweenHosts;
    /// For a peer to shake hands, and then for an agent to register or for another one to ask.
    std::chrono::milliseconds identification_timeout{10'000};
    /// At the same moment; for one more, one goes that comes from where most do. Allow for as many
    /// agents as may come at the same moment.
    std::size_t max_handshakes = kMaxStrangers;
    /// That speak HTTP and have not shown a key: one more costs the one that has been here longest
    /// its connection.
    std::size_t max_strangers = kMaxStrangers;
  };
  static constexpr std::size_t kMaxStrangers = 256;

  /// Bad input for an address that is none; retry-later when no port of the range is free.
  static Result<std::unique_ptr<ControlServer>> Listen(boost::asio::any_io_executor executor,
                                                       Options options, ControlService& service);

  virtual ~ControlServer() = default;
  virtual std::uint16_t port() const = 0;
  /// Stops listening and drops all connections.
  virtual void Close() = 0;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_SERVER_CONTROL_SERVER_H_
