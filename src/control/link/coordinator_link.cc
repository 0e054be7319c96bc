#include "control/link/coordinator_link.h"

#include <boost/asio/as_tuple.hpp>
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
#include "control/link/async_latch.h"
#include "control/link/spawn.h"
#include "control/link/stream/async_stream.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/protocols.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::seconds kCloseTimeout(2);

/// Why `stream` has ended with `error`. TLS says when anybody has changed what came.
Status Broken(const boost::system::error_code& error, const AsyncStream& stream) {
  const Status& failure = stream.failure();
  if (failure.ok()) return {ErrorKind::kReconnect, error.message()};
  if (failure.kind() != ErrorKind::kBadInput) return {ErrorKind::kReconnect, failure.ToString()};
  return {ErrorKind::kReconnect,
          fmt::format("data from the coordinator was altered in transit, so the connection was "
                      "closed: {}",
                      failure.ToString())};
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
      co_return Broken(error, socket_->next_layer());
    }
    co_return beast::buffers_to_string(buffer.data());
  }

  void Send(std::string message) override {
    if (broken_) return;
    const std::size_t size = message.size();
    SendIf(queue_.Push(std::move(message), size));
  }

  void SendLatest(std::string_view kind, SendQueue<std::string>::Make make) override {
    if (broken_) return;
    SendIf(queue_.PushLatest(kind, std::move(make)));
  }

  asio::awaitable<void> Flush(Deadline deadline) override {
    if (sending_) co_await sent_.Wait(deadline);
  }

  asio::awaitable<void> Close(Deadline deadline) override {
    co_await Flush(deadline);
    if (!broken_) co_await socket_->async_close(websocket::close_code::normal, kNoThrow);
    socket_->next_layer().Close();
  }

 private:
  /// `fits`: what is to be sent has found room.
  void SendIf(bool fits) {
    if (fits) return StartSending();
    LogError("the coordinator has left {} MiB of messages unread", kMaxQueuedBytes >> 20);
    Break();
  }
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

asio::awaitable<Status> WebSocketLink::Open(const Options& options) {
  Result<OpenedDoor> opened = co_await options.door.Open(executor_, kAgentProtocol);
  if (!opened.ok()) co_return opened.status();
  local_address_ = std::move(opened->local_address);
  socket_.emplace(executor_, std::move(opened->stream));

  websocket::stream_base::timeout timeouts{};
  timeouts.handshake_timeout = options.door.connect_timeout;
  timeouts.idle_timeout = options.idle_timeout;
  timeouts.keep_alive_pings = true;
  socket_->set_option(timeouts);
  socket_->read_message_max(kMaxMessageBytes);
  const std::string host = Endpoint{options.door.address, options.door.port}.ToString();
  const std::string target = "/v1/agent";
  auto [declined] = co_await socket_->async_handshake(host, target, kNoThrow);
  if (declined) co_return Broken(declined, socket_->next_layer());
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
