#include "control/link/server/control_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/crypto/purpose.h"
#include "base/format.h"
#include "base/logging.h"
#include "control/link/server/control_session.h"
#include "control/link/server/page_keys.h"
#include "control/link/server/tunnels.h"
#include "control/link/spawn.h"
#include "control/link/stream/watched_fd.h"
#include "control/messages/protocols.h"
#include "net/handshake/acceptor.h"
#include "net/listen.h"
#include "net/stranger_log.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using session::kNoThrow;
using session::Session;

class Server final : public ControlServer {
 public:
  Server(asio::any_io_executor executor, std::unique_ptr<net::Acceptor> acceptor,
         std::uint16_t port, Options options, ControlService& service)
      : executor_(std::move(executor)),
        options_(std::move(options)),
        service_(service),
        keys_(std::make_shared<const PageKeys>(options_.token, options_.scrape_token)),
        tunnels_(executor_),
        acceptor_(std::move(acceptor)),
        waiting_(executor_, acceptor_->fd()),
        port_(port) {}

  ~Server() override { Close(); }

  std::uint16_t port() const override { return port_; }

  void Close() override {
    waiting_.Release();
    acceptor_->Close();
    for (const auto& session : sessions_) session->Abort();
  }

  asio::awaitable<void> Run() {
    while (waiting_.watched()) {
      auto [error] = co_await waiting_.Wait(WatchedFd::kInput, kNoThrow);
      if (error || !waiting_.watched()) co_return;
      for (net::Guest& guest : acceptor_->Progress()) Serve(std::move(guest));
    }
  }

 private:
  void Serve(net::Guest guest) {
    const net::Numbers numbers = guest.connection.numbers;
    if (guest.connection.protocol.name == kTunnelProtocol.name) {
      tunnels_.Take(static_cast<int>(numbers.generation), static_cast<int>(numbers.connecting),
                    std::move(guest.connection.stream));
      return;
    }
    session::Visitor visitor{.stream = std::move(guest.connection.stream),
                             .peer = std::move(guest.peer),
                             .node_id = static_cast<int>(numbers.connecting)};
    if (visitor.stream == nullptr) {
      MakeRoomForAStranger();
      visitor.stream = std::make_unique<net::SocketStream>(std::move(guest.other));
      visitor.received = std::move(guest.received);
    } else if (guest.connection.protocol.name == kAgentProtocol.name) {
      visitor.came_as = session::CameAs::kAgent;
    } else if (guest.connection.protocol.name == kOperateProtocol.name) {
      visitor.came_as = session::CameAs::kOperator;
    } else {
      visitor.came_as = session::CameAs::kAsker;
    }
    auto session = std::make_shared<Session>(executor_, std::move(visitor), service_, stranger_log_,
                                             keys_, tunnels_, options_.identification_timeout);
    sessions_.insert(session);
    if (session->is_stranger()) strangers_.push_back(session);
    asio::co_spawn(executor_, session->Run(), [this, session](const std::exception_ptr& thrown) {
      if (thrown != nullptr) {
        LogError("{}", StatusOf(thrown, "serve a connection").message());
        session->End();
      }
      sessions_.erase(session);
    });
  }

  void MakeRoomForAStranger() {
    if (strangers_.size() < options_.max_strangers) return;
    // Only now, so that a connection costs no search as long as there are few strangers.
    std::erase_if(strangers_, [](const std::weak_ptr<Session>& entry) {
      const auto session = entry.lock();
      return session == nullptr || !session->is_stranger();
    });
    if (strangers_.size() < options_.max_strangers) return;
    const auto oldest = strangers_.front().lock();
    oldest->Refuse(
        fmt::format("too many connections are waiting to authenticate ({}); it is the oldest",
                    strangers_.size()));
    strangers_.erase(strangers_.begin());
  }

  asio::any_io_executor executor_;
  Options options_;
  ControlService& service_;
  net::StrangerLog stranger_log_;
  std::shared_ptr<const PageKeys> keys_;
  Tunnels tunnels_;
  std::unique_ptr<net::Acceptor> acceptor_;
  WatchedFd waiting_;  // For the acceptor, which outlives it.
  std::uint16_t port_;
  std::unordered_set<std::shared_ptr<Session>> sessions_;
  // In the order in which they came, with some that are strangers no more or have left.
  std::vector<std::weak_ptr<Session>> strangers_;
};

/// What to do where the coordinator can't listen.
std::string AdviceFor(int error) {
  if (error == EADDRNOTAVAIL) {
    return "this host has no such address: see spark.tfos.coordinator.bindAddress";
  }
  if (error == EADDRINUSE || error == EACCES) {
    return "another cluster or program has the port, or it needs rights. Give "
           "spark.tfos.coordinator.port a range, with a port for each cluster that runs at the "
           "same time";
  }
  return "wait for agents";
}

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::Listen(asio::any_io_executor executor,
                                                             Options options,
                                                             ControlService& service) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.bind_address, error);
  if (error) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("'{}' is not an IP address to bind to", options.bind_address));
  }
  Result<net::TcpListener> listener =
      net::ListenTcp(address.to_string(), options.ports.first, options.ports.last);
  if (!listener.ok()) {
    return listener.status().Annotate(AdviceFor(listener.status().code().value()));
  }
  TFOS_ASSIGN_OR_RETURN(
      std::unique_ptr<net::Acceptor> acceptor,
      net::Acceptor::Create(
          {.party = {.protocol = kAgentProtocol,
                     .key = KeyFor(options.token, Purpose::kJoin),
                     .encryption = options.encryption,
                     .tls_batch_bytes = kTlsBatchBytes,
                     .doors = {{kTunnelProtocol, KeyFor(options.token, Purpose::kJoin)},
                               {kAskProtocol, KeyFor(options.token, Purpose::kAsk)},
                               {kOperateProtocol, KeyFor(options.token, Purpose::kOperate)}}},
           .what = "the coordinator",
           .others = true,
           .most_strangers = options.max_handshakes,
           .patience = options.identification_timeout}));
  TFOS_RETURN_IF_ERROR(acceptor->Listen(std::move(listener->fd)));
  auto server = std::make_unique<Server>(executor, std::move(acceptor), listener->port,
                                         std::move(options), service);
  // Without it no agent can come: those that are there must not wait for the others for ever.
  Spawn(executor, "accept connections", server->Run(),
        [server = server.get()](const Status&) { server->Close(); });
  return std::unique_ptr<ControlServer>(std::move(server));
}

}  // namespace tfos::control
