#ifndef TFOS_CONTROL_LINK_SERVER_CONTROL_SERVICE_H_
#define TFOS_CONTROL_LINK_SERVER_CONTROL_SERVICE_H_

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

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
  /// `POST target`, from a client that has the key to operate.
  virtual boost::asio::awaitable<HttpAnswer> Post(std::string target, std::string query) = 0;
  /// A failure is logged and ends the connection.
  virtual Status OnMessage(AgentConnection& connection, std::string_view text) = 0;
  /// Asks an agent for tunnel `number`, to the TensorBoard beside its node, which this returns.
  /// nullopt: none runs.
  virtual std::optional<int> AskForTunnel(int number) = 0;
  /// The connection is gone. Comes once for each connection.
  virtual void OnClosed(AgentConnection& connection) = 0;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_SERVER_CONTROL_SERVICE_H_
