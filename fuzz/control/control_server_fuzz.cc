// What comes to the coordinator's port from those who have a key: an agent's WebSocket, a task's,
// a browser's and an operator's requests, and what an agent sends through a tunnel as TensorBoard's
// answer. The first byte chooses; the rest comes over the connection. Whatever it is, the next one
// is served.

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/crypto/purpose.h"
#include "control/link/server/control_server.h"
#include "control/messages/agent_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/protocols.h"
#include "net/handshake/handshake.h"
#include "net/poll.h"
#include "net/socket.h"
#include "net/stream.h"
#include "quiet.h"

namespace {

using namespace tfos;           // NOLINT(google-build-using-namespace)
using namespace tfos::control;  // NOLINT(google-build-using-namespace)
namespace asio = boost::asio;

constexpr int kNodeId = 3;
const Wait kWait{.deadline = Deadline::After(std::chrono::hours(24))};
constexpr std::string_view kUpgrade =
    "GET /v1/agent HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Reads messages as the coordinator does, and answers each. Its threads: the server's, and for
/// `tunnel` any.
class Service final : public ControlService {
 public:
  asio::awaitable<HttpAnswer> Get(std::string target, std::string query, Asker) override {
    HttpAnswer answer;  // named: GCC 12 destroys aggregates in a co_return twice
    answer.body = target + query;
    co_return answer;
  }
  asio::awaitable<HttpAnswer> Post(std::string target, std::string query) override {
    return Get(std::move(target), std::move(query), Asker::kOperator);
  }
  Status OnMessage(AgentConnection& agent, std::string_view text) override {
    TFOS_RETURN_IF_ERROR(ParseMessage<AgentMessage>(text).status());
    agent.MarkIdentified();
    agent.Send({std::string(text)});
    return {};
  }
  std::optional<int> AskForTunnel(int number) override {
    tunnel.set_value(number);
    return kNodeId;
  }
  void OnClosed(AgentConnection&) override {}

  std::promise<int> tunnel;
};

/// Says all of it, and no more.
void Say(net::Stream& stream, std::string_view text) {
  (void)net::SendAll(stream, std::as_bytes(std::span(text)), kWait).ok();
  ::shutdown(stream.fd(), SHUT_WR);
}

/// Hears what the other end says until it closes the connection.
void Drain(net::Stream& stream) {
  std::array<std::byte, 4096> room;
  while (true) {
    const auto got = stream.Receive(room);
    if (!got.ok() || got->ended) return;
    if (got->blocked) (void)net::Poll(stream.fd(), POLLIN, kWait).ok();
  }
}

class Port {
 public:
  Port() {
    ControlServer::Options options;
    options.bind_address = "127.0.0.1";
    options.token = token_;
    options.identification_timeout = std::chrono::hours(1);
    auto server = ControlServer::Listen(io_.get_executor(), options, service_);
    if (!server.ok()) std::abort();
    server_ = std::move(server).value();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Port() {
    asio::post(io_, [this] { io_.stop(); });
    thread_.join();
  }

  Service& service() { return service_; }
  std::string key(Purpose purpose) const { return KeyFor(token_, purpose).ToHex(); }

  std::unique_ptr<net::Stream> Browser() const {
    return std::make_unique<net::SocketStream>(
        net::ConnectTcp("127.0.0.1", server_->port(), kWait).value());
  }
  std::unique_ptr<net::Stream> Member(const net::Protocol& protocol, Purpose purpose,
                                      std::uint32_t generation = 0) const {
    auto connection = net::ShakeHands(net::ConnectTcp("127.0.0.1", server_->port(), kWait).value(),
                                      {.protocol = protocol, .key = KeyFor(token_, purpose)},
                                      {.connecting = kNodeId, .generation = generation}, kWait);
    if (!connection.ok()) std::abort();
    return std::move(connection->stream);
  }

 private:
  const Secret token_ = Secret::Generate().value();
  Service service_;
  asio::io_context io_{1};
  std::unique_ptr<ControlServer> server_;
  std::thread thread_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  LogOnly("ERROR");
  if (size == 0) return 0;
  const std::string said(reinterpret_cast<const char*>(data + 1), size - 1);
  Port port;
  if (data[0] % 5 == 0) {
    const auto agent = port.Member(kAgentProtocol, Purpose::kJoin);
    Say(*agent, std::string(kUpgrade) + said);
    Drain(*agent);
  } else if (data[0] % 5 == 1) {
    const auto asker = port.Member(kAskProtocol, Purpose::kAsk);
    Say(*asker, said);
    Drain(*asker);
  } else if (data[0] % 5 == 4) {
    const auto user = port.Member(kOperateProtocol, Purpose::kOperate);
    Say(*user, said);
    Drain(*user);
  } else if (data[0] % 5 == 2) {
    const auto browser = port.Browser();
    Say(*browser, "GET /v1/status HTTP/1.1\r\nAuthorization: Bearer " + port.key(Purpose::kRead) +
                      "\r\n" + said);
    Drain(*browser);
  } else {
    const auto browser = port.Browser();
    std::future<int> asked = port.service().tunnel.get_future();
    Say(*browser, "GET /tensorboard/ HTTP/1.1\r\nAuthorization: Bearer " +
                      port.key(Purpose::kRead) + "\r\n\r\n");
    const auto number = static_cast<std::uint32_t>(asked.get());
    const auto tunnel = port.Member(kTunnelProtocol, Purpose::kJoin, number);
    Say(*tunnel, said);
    Drain(*browser);
  }
  const auto next = port.Member(kAskProtocol, Purpose::kAsk);
  Say(*next, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
  Drain(*next);
  return 0;
}
