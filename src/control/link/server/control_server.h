#ifndef TFOS_CONTROL_LINK_SERVER_CONTROL_SERVER_H_
#define TFOS_CONTROL_LINK_SERVER_CONTROL_SERVER_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/crypto/secret.h"
#include "control/host/held_port.h"
#include "net/handshake/protocol.h"
#include "tfos/status.h"

namespace tfos::control {

/// A message on its way to an agent: `own` and then, if there is one, the part that it shares with
/// messages to other agents.
struct OutgoingMessage {
  std::string own;
  std::shared_ptr<const std::string> shared = nullptr;
};

/// One agent's WebSocket. Owner and lifetime: the server's; valid until `OnClosed` returned.
class AgentConnection {
 public:
  virtual ~AgentConnection() = default;
  /// Most bytes of messages that wait for one agent, their shared parts not counted.
  static constexpr std::size_t kMaxQueuedBytes = 16u << 20;

  /// Queues a message. Nothing happens on a connection that is broken, which `OnClosed` tells. An
  /// agent that leaves kMaxQueuedBytes unread loses its connection.
  virtual void Send(OutgoingMessage message) = 0;
  /// For state: replaces the message of this `kind` that waits, if one does.
  virtual void SendLatest(std::string_view kind, OutgoingMessage message) = 0;
  /// Sends what is queued and closes.
  virtual void CloseAfterSending() = 0;
  /// Closes at once; for a peer that doesn't answer.
  virtual void Abort() = 0;
  /// The peer has said who it is: the time limit for that no longer counts.
  virtual void MarkIdentified() = 0;
  /// The id of the node whose agent this is, as its handshake has proved.
  virtual int node_id() const = 0;
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::string cookie = {};  ///< To be set; "": none.
  /// Called once the answer was sent; empty: nobody wants to know. Not called if it could not be.
  std::function<void()> on_sent = {};
};

/// Where a request for a page comes from.
enum class Asker {
  kReader,    ///< May do nothing else.
  kOperator,  ///< Has the key to operate, too.
};

/// What a ControlServer serves. All calls come from the server's executor.
class ControlService {
 public:
  virtual ~ControlService() = default;
  /// `GET target`; `query` is what follows the question mark.
  virtual boost::asio::awaitable<HttpAnswer> Get(std::string target, std::string query,
                                                 Asker asker) = 0;
  /// `POST target` of somebody who has the key to operate.
  virtual boost::asio::awaitable<HttpAnswer> Post(std::string target, std::string query) = 0;
  /// A failure is logged and ends the connection.
  virtual Status OnMessage(AgentConnection& connection, std::string_view text) = 0;
  /// Asks an agent for tunnel `number`, to the TensorBoard beside its node, which this returns.
  /// nullopt: none runs.
  virtual std::optional<int> AskForTunnel(int number) = 0;
  /// The connection is gone. Comes once for each connection.
  virtual void OnClosed(AgentConnection& connection) = 0;
};

/// HTTP and WebSocket on one port (the HTTP library stays behind this interface), by four ways:
///
/// - agents shake hands with the key for `join`, and may open a WebSocket;
/// - Spark's tasks shake hands with the key for `ask`, and may ask for pages;
/// - people who operate the cluster shake hands with the key for `operate`, may ask for pages, and
///   may post;
/// - people and Prometheus speak HTTP at once. They send the key for `read` or, for the metrics,
/// that
///   for `scrape`. TensorBoard's page is among them, which comes through an agent. Everyone else is
///   answered 401 before anything else is looked at.
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
