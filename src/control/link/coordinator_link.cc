#include "control/link/coordinator_link.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket.hpp>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/text/endpoint.h"
#include "control/ask/protocols.h"
#include "control/link/async_latch.h"
#include "control/link/spawn.h"
#include "control/link/stream/async_stream.h"
#include "control/link/stream/watched_fd.h"
#include "control/link/time_limit.h"
#include "control/messages/parts/message_text.h"
#include "net/handshake/handshake.h"
#include "net/socket.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using asio::ip::tcp;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::seconds kCloseTimeout(2);

Status Broken(const boost::system::error_code& error) {
  return Status(ErrorKind::kReconnect, error.message());
}

class WebSocketLink final : public CoordinatorLink {
 public:
  explicit WebSocketLink(const asio::any_io_executor& executor)
      : executor_(executor), sent_(executor) {}

  asio::awaitable<Status> Open(const Options& options);

  const std::string& local_address() const override { return local_address_; }

  asio::awaitable<Result<std::string>> Read() override {
    beast::flat_buffer buffer;
    auto [error, size] = co_await socket_->async_read(buffer, kNoThrow);
    if (error) {
      broken_ = true;
      co_return Broken(error);
    }
    co_return beast::buffers_to_string(buffer.data());
  }

  void Send(std::string message) override {
    if (broken_) return;
    const std::size_t size = message.size();
    if (!queue_.Push(std::move(message), size)) {
      LogError("the coordinator has left {} MiB of messages unread", kMaxQueuedBytes >> 20);
      Break();
      return;
    }
    StartSending();
  }

  void SendLatest(std::string_view kind, SendQueue<std::string>::Make make) override {
    if (broken_) return;
    queue_.PushLatest(kind, std::move(make));
    StartSending();
  }

  asio::awaitable<void> Close(Deadline deadline) override {
    if (sending_) co_await sent_.Wait(deadline);
    if (!broken_) co_await socket_->async_close(websocket::close_code::normal, kNoThrow);
    socket_->next_layer().Close();
  }

 private:
  asio::awaitable<Result<tcp::resolver::results_type>> Resolve(const Options& options);
  /// A connected socket.
  asio::awaitable<Result<UniqueFd>> ConnectTcp(const Options& options, TimeLimit& limit);
  asio::awaitable<Result<std::unique_ptr<net::Stream>>> ShakeHands(UniqueFd socket,
                                                                   const Options& options,
                                                                   TimeLimit& limit);
  void StartSending() {
    if (sending_) return;
    sending_ = true;
    sent_.Reset();
    Spawn(executor_, "send to the coordinator", SendQueued(), [this](const Status&) {
      Break();
      sending_ = false;
      sent_.Open();
    });
  }
  asio::awaitable<void> SendQueued();
  // The reader sees the end and tells.
  void Break() {
    broken_ = true;
    queue_.Clear();
    socket_->next_layer().Close();
  }

  asio::any_io_executor executor_;
  std::optional<websocket::stream<AsyncStream, /*deflateSupported=*/false>> socket_;
  std::string local_address_;
  SendQueue<std::string> queue_{kMaxQueuedBytes};
  AsyncLatch sent_;
  bool sending_ = false;
  bool broken_ = false;
};

asio::awaitable<Result<tcp::resolver::results_type>> WebSocketLink::Resolve(
    const Options& options) {
  boost::system::error_code not_numeric;
  const auto address = asio::ip::make_address(options.address, not_numeric);
  if (!not_numeric) {
    co_return tcp::resolver::results_type::create(tcp::endpoint(address, options.port),
                                                  options.address, std::to_string(options.port));
  }
  tcp::resolver resolver(executor_);
  auto [error, found] =
      co_await resolver.async_resolve(options.address, std::to_string(options.port), kNoThrow);
  if (error) co_return Broken(error);
  co_return found;
}

asio::awaitable<Result<UniqueFd>> WebSocketLink::ConnectTcp(const Options& options,
                                                            TimeLimit& limit) {
  Result<tcp::resolver::results_type> endpoints = co_await Resolve(options);
  if (!endpoints.ok()) co_return endpoints.status();
  tcp::socket socket(executor_);
  limit.Set(options.connect_timeout, [&socket] { socket.close(); });
  auto [refused, endpoint] = co_await asio::async_connect(socket, *endpoints, kNoThrow);
  limit.Lift();
  if (refused) co_return Broken(refused);
  boost::system::error_code error;
  local_address_ = socket.local_endpoint(error).address().to_string();
  socket.native_non_blocking(true, error);
  UniqueFd connected(socket.release(error));
  if (error) co_return Broken(error);
  net::TuneTcp(connected.get());
  co_return connected;
}

asio::awaitable<Result<std::unique_ptr<net::Stream>>> WebSocketLink::ShakeHands(
    UniqueFd socket, const Options& options, TimeLimit& limit) {
  const net::Party party{.protocol = kAgentProtocol,
                         .key = options.key,
                         .encryption = options.encryption,
                         .tls_batch_bytes = kTlsBatchBytes};
  net::Handshake handshake =
      net::Handshake::Connecting(std::move(socket), party, {.connecting = options.node_id});
  WatchedFd waiting(executor_, handshake.fd());
  limit.Set(options.connect_timeout, [&waiting] { waiting.Release(); });
  while (true) {
    const Result<net::Handshake::State> state = handshake.Continue();
    if (!state.ok()) {
      co_return Status(ErrorKind::kReconnect,
                       fmt::format("{}: what listens there is the coordinator of another cluster, "
                                   "or no coordinator",
                                   state.status().message()));
    }
    if (*state == net::Handshake::State::kDone) break;
    const auto event =
        *state == net::Handshake::State::kReading ? WatchedFd::kInput : WatchedFd::kOutput;
    auto [late] = co_await waiting.Wait(event, kNoThrow);
    if (late) co_return Status(ErrorKind::kReconnect, "it did not shake hands in time");
  }
  limit.Lift();
  co_return handshake.Take().stream;
}

asio::awaitable<Status> WebSocketLink::Open(const Options& options) {
  TimeLimit limit(executor_);
  Result<UniqueFd> connected = co_await ConnectTcp(options, limit);
  if (!connected.ok()) co_return connected.status();
  auto stream = co_await ShakeHands(std::move(connected).value(), options, limit);
  if (!stream.ok()) co_return stream.status();
  socket_.emplace(executor_, std::move(stream).value());

  websocket::stream_base::timeout timeouts{};
  timeouts.handshake_timeout = options.connect_timeout;
  timeouts.idle_timeout = options.idle_timeout;
  timeouts.keep_alive_pings = true;
  socket_->set_option(timeouts);
  socket_->read_message_max(kMaxMessageBytes);
  const std::string host = Endpoint{options.address, options.port}.ToString();
  const std::string target = "/v1/agent";
  auto [declined] = co_await socket_->async_handshake(host, target, kNoThrow);
  if (declined) co_return Broken(declined);
  timeouts.handshake_timeout = kCloseTimeout;  // it also bounds the closing handshake
  socket_->set_option(timeouts);
  socket_->text(true);
  co_return Status::Ok();
}

asio::awaitable<void> WebSocketLink::SendQueued() {
  while (std::optional<std::string> next = queue_.Pop()) {
    auto [error, sent] = co_await socket_->async_write(asio::buffer(*next), kNoThrow);
    if (!error) continue;
    broken_ = true;
    queue_.Clear();
  }
  sending_ = false;
  sent_.Open();
}

}  // namespace

asio::awaitable<Result<std::unique_ptr<CoordinatorLink>>> CoordinatorLink::Connect(
    asio::any_io_executor executor, Options options) {
  auto link = std::make_unique<WebSocketLink>(executor);
  Status opened = co_await link->Open(options);
  if (!opened.ok()) {
    co_return opened;
  }
  co_return std::unique_ptr<CoordinatorLink>(std::move(link));
}

}  // namespace tfos::control
