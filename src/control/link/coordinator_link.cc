#include "control/link/coordinator_link.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket.hpp>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/text/endpoint.h"
#include "control/link/async_latch.h"
#include "control/link/spawn.h"
#include "control/messages/parts/message_text.h"

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
      : executor_(executor), socket_(executor), sent_(executor) {}

  asio::awaitable<Status> Open(const Options& options, const Secret& token);

  const std::string& local_address() const override { return local_address_; }

  asio::awaitable<Result<std::string>> Read() override {
    beast::flat_buffer buffer;
    auto [error, size] = co_await socket_.async_read(buffer, kNoThrow);
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
    if (!broken_) co_await socket_.async_close(websocket::close_code::normal, kNoThrow);
    beast::get_lowest_layer(socket_).close();
  }

 private:
  asio::awaitable<Result<tcp::resolver::results_type>> Resolve(const Options& options);
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
    beast::get_lowest_layer(socket_).close();
  }

  asio::any_io_executor executor_;
  websocket::stream<beast::tcp_stream> socket_;
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

asio::awaitable<Status> WebSocketLink::Open(const Options& options, const Secret& token) {
  Result<tcp::resolver::results_type> endpoints = co_await Resolve(options);
  if (!endpoints.ok()) co_return endpoints.status();
  beast::tcp_stream& stream = beast::get_lowest_layer(socket_);
  stream.expires_after(options.connect_timeout);
  auto [refused, endpoint] = co_await stream.async_connect(*endpoints, kNoThrow);
  if (refused) co_return Broken(refused);
  boost::system::error_code no_matter;  // what is asked for here only makes it faster or nicer
  stream.socket().set_option(tcp::no_delay(true), no_matter);
  local_address_ = stream.socket().local_endpoint(no_matter).address().to_string();

  websocket::stream_base::timeout timeouts{};
  timeouts.handshake_timeout = options.connect_timeout;
  timeouts.idle_timeout = options.idle_timeout;
  timeouts.keep_alive_pings = true;
  stream.expires_never();  // from here on the WebSocket's own timeouts count
  socket_.set_option(timeouts);
  socket_.read_message_max(kMaxMessageBytes);
  const std::string authorization = "Bearer " + token.ToHex();
  socket_.set_option(
      websocket::stream_base::decorator([&authorization](websocket::request_type& request) {
        request.set(beast::http::field::authorization, authorization);
        request.set(beast::http::field::user_agent, "tfos agent");
      }));
  const std::string host = Endpoint{options.address, options.port}.ToString();
  const std::string target = "/v1/agent";
  auto [declined] = co_await socket_.async_handshake(host, target, kNoThrow);
  if (declined == websocket::error::upgrade_declined) {
    co_return Status(ErrorKind::kReconnect,
                     "it refused the token: another cluster's coordinator, or no coordinator");
  }
  if (declined) co_return Broken(declined);
  // Neither the token nor a reference to it stays in the stream.
  socket_.set_option(websocket::stream_base::decorator([](websocket::request_type&) {}));
  timeouts.handshake_timeout = kCloseTimeout;  // it also bounds the closing handshake
  socket_.set_option(timeouts);
  socket_.text(true);
  co_return Status::Ok();
}

asio::awaitable<void> WebSocketLink::SendQueued() {
  while (std::optional<std::string> next = queue_.Pop()) {
    auto [error, sent] = co_await socket_.async_write(asio::buffer(*next), kNoThrow);
    if (!error) continue;
    broken_ = true;
    queue_.Clear();
  }
  sending_ = false;
  sent_.Open();
}

}  // namespace

asio::awaitable<Result<std::unique_ptr<CoordinatorLink>>> CoordinatorLink::Connect(
    asio::any_io_executor executor, Options options, Secret token) {
  auto link = std::make_unique<WebSocketLink>(executor);
  Status opened = co_await link->Open(options, token);
  if (!opened.ok()) {
    co_return opened;
  }
  co_return std::unique_ptr<CoordinatorLink>(std::move(link));
}

}  // namespace tfos::control
