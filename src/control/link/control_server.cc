#include "control/link/control_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <exception>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/logging.h"
#include "control/link/control_session.h"
#include "control/link/spawn.h"
#include "net/stranger_log.h"
#include "net/listen.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using session::kNoThrow;
using session::Session;

constexpr std::chrono::milliseconds kAcceptRetry(100);

class Server final : public ControlServer {
 public:
  Server(tcp::acceptor acceptor, Options options, const Secret& secret, ControlService& service)
      : options_(std::move(options)),
        service_(service),
        authorization_(std::make_shared<const std::string>("Bearer " + secret.ToHex())),
        acceptor_(std::move(acceptor)),
        retry_timer_(acceptor_.get_executor()),
        port_(acceptor_.local_endpoint().port()) {}

  ~Server() override { Close(); }

  std::uint16_t port() const override { return port_; }

  void Close() override {
    error_code ignored;  // the descriptor is released either way
    acceptor_.close(ignored);
    retry_timer_.cancel();
    for (const auto& session : sessions_) session->Abort();
  }

  asio::awaitable<void> Run() {
    while (acceptor_.is_open()) {
      auto [error, socket] = co_await acceptor_.async_accept(kNoThrow);
      if (error == asio::error::operation_aborted || !acceptor_.is_open()) co_return;
      if (error) {
        // Out of descriptors or the like: the connection waits in the backlog, so trying again at
        // once would only burn CPU.
        LogWarning("can't accept a connection: {}", error.message());
        retry_timer_.expires_after(kAcceptRetry);
        co_await retry_timer_.async_wait(kNoThrow);
        continue;
      }
      MakeRoomForAStranger();
      auto session = std::make_shared<Session>(std::move(socket), service_, stranger_log_,
                                               authorization_, options_.identification_timeout);
      sessions_.insert(session);
      strangers_.push_back(session);
      asio::co_spawn(acceptor_.get_executor(), session->Run(),
                     [this, session](const std::exception_ptr& thrown) {
                       if (thrown != nullptr) {
                         LogError("{}", StatusOf(thrown, "serve a connection").message());
                         session->End();
                       }
                       sessions_.erase(session);
                     });
    }
  }

 private:
  void MakeRoomForAStranger() {
    if (strangers_.size() < options_.max_strangers) return;
    // Only now, so that a connection costs no search as long as there are few strangers.
    std::erase_if(strangers_, [](const std::weak_ptr<Session>& entry) {
      const auto session = entry.lock();
      return session == nullptr || !session->is_stranger();
    });
    if (strangers_.size() < options_.max_strangers) return;
    const auto oldest = strangers_.front().lock();
    oldest->Refuse(fmt::format("{} others have not said who they are either, and one more came",
                               strangers_.size() - 1));
    strangers_.erase(strangers_.begin());
  }

  Options options_;
  ControlService& service_;
  net::StrangerLog stranger_log_;
  std::shared_ptr<const std::string> authorization_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_timer_;
  std::uint16_t port_;
  std::unordered_set<std::shared_ptr<Session>> sessions_;
  // In the order in which they came, with some that are strangers no more or have left.
  std::vector<std::weak_ptr<Session>> strangers_;
};

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::Listen(asio::any_io_executor executor,
                                                             Options options, const Secret& secret,
                                                             ControlService& service) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.bind_address, error);
  if (error) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("'{}' is not an IP address to bind to", options.bind_address));
  }
  TFOS_ASSIGN_OR_RETURN(
      net::TcpListener listener,
      net::ListenTcp(address.to_string(), options.ports.first, options.ports.last));
  tcp::acceptor acceptor(executor, address.is_v6() ? tcp::v6() : tcp::v4(), listener.fd.Release());
  auto server = std::make_unique<Server>(std::move(acceptor), std::move(options), secret, service);
  // Without it no agent can come: those that are there must not wait for the others for ever.
  Spawn(executor, "accept connections", server->Run(),
        [server = server.get()](const Status&) { server->Close(); });
  return std::unique_ptr<ControlServer>(std::move(server));
}

}  // namespace tfos::control
