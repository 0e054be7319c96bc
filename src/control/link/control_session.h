#ifndef TFOS_CONTROL_LINK_CONTROL_SESSION_H_
#define TFOS_CONTROL_LINK_CONTROL_SESSION_H_

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "base/format.h"
#include "base/logging.h"
#include "base/text/endpoint.h"
#include "control/link/control_server.h"
#include "control/link/send_queue.h"
#include "control/link/spawn.h"
#include "net/stranger_log.h"
#include "control/link/time_limit.h"
#include "control/messages/parts/message_text.h"

// One connection of a ControlServer. Only for its source: everything here takes long to compile.
namespace tfos::control::session {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using asio::ip::tcp;
using boost::system::error_code;

inline constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
inline constexpr std::size_t kMaxHeaderBytes = 8192;
inline constexpr std::string_view kAgentTarget = "/v1/agent";
// A long poll lasts up to 10 s; this also bounds writing an answer.
inline constexpr std::chrono::seconds kHttpTimeout(30);
// A buffer that one long message has stretched is given back.
inline constexpr std::size_t kKeptBufferBytes = 65536;

using Request = http::request<http::empty_body>;

inline bool Authorized(const Request& request, std::string_view expected) {
  const auto field = request[http::field::authorization];
  return ConstantTimeEqual({field.data(), field.size()}, expected);
}

/// One accepted connection: HTTP requests, or after an upgrade one agent.
/// Owner and lifetime: shared by the server and its own operations. Threads: those of one
/// single-threaded executor.
class Session final : public AgentConnection, public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, ControlService& service, net::StrangerLog& stranger_log,
          std::shared_ptr<const std::string> authorization, std::chrono::milliseconds timeout)
      : executor_(socket.get_executor()),
        socket_(std::move(socket)),
        identification_limit_(executor_),
        service_(service),
        stranger_log_(stranger_log),
        authorization_(std::move(authorization)),
        identification_timeout_(timeout) {
    error_code ignored;  // a socket that broke already shows it at the first read
    const tcp::endpoint peer = tcp_stream().socket().remote_endpoint(ignored);
    peer_ = Endpoint{peer.address().to_string(), peer.port()}.ToString();
    tcp_stream().socket().set_option(tcp::no_delay(true), ignored);
  }

  asio::awaitable<void> Run() {
    // Keeps the session while any of its operations runs.
    const auto self = shared_from_this();
    LimitIdentification();
    std::optional<Request> upgrade = co_await ServeHttp();
    if (upgrade.has_value() && co_await Accept(*upgrade)) co_await ServeAgent();
    End();
  }

  // Nothing of the session runs any more.
  void End() {
    Abort();
    if (std::exchange(serves_agent_, false)) service_.OnClosed(*this);
  }

  void Send(OutgoingMessage message) override {
    if (!open_) return;
    const std::size_t size = message.own.size();
    if (!queue_.Push(std::move(message), size)) {
      LogBad(fmt::format("it has left {} MiB of messages unread", kMaxQueuedBytes >> 20));
      Abort();
      return;
    }
    WriteQueued();
  }

  void SendLatest(std::string_view kind, OutgoingMessage message) override {
    if (!open_) return;
    queue_.PushLatest(kind, [message = std::move(message)] { return message; });
    WriteQueued();
  }

  void CloseAfterSending() override {
    closing_ = true;
    WriteQueued();
  }

  void Abort() override {
    open_ = false;
    identification_limit_.Lift();
    tcp_stream().close();
  }

  void MarkIdentified() override { identification_limit_.Lift(); }

  // True until the peer has sent the cluster's token.
  bool is_stranger() const { return stranger_; }

  // Closes the connection because of `what`.
  void Refuse(std::string_view what) {
    LogBad(what);
    tcp_stream().close();
  }

 private:
  beast::tcp_stream& tcp_stream() { return socket_.next_layer(); }

  void LimitIdentification() {
    identification_limit_.Set(identification_timeout_,
                              [this] { Refuse("it did not say who it is in time"); });
  }

  // Serves requests until the connection ends (nullopt) or asks to become an agent's.
  asio::awaitable<std::optional<Request>> ServeHttp() {
    while (true) {
      http::request_parser<http::empty_body> parser;
      parser.header_limit(kMaxHeaderBytes);
      parser.body_limit(0);
      tcp_stream().expires_after(kHttpTimeout);
      auto [error, size] = co_await http::async_read(tcp_stream(), buffer_, parser, kNoThrow);
      if (error) {
        const bool ended = error == http::error::end_of_stream || error == beast::error::timeout ||
                           error == asio::error::operation_aborted ||
                           error == asio::error::connection_reset;
        if (!ended) LogBad("its request is not one: " + error.message());
        co_return std::nullopt;
      }
      const Request request = parser.release();
      if (!Authorized(request, *authorization_)) {
        LogBad("it does not know the cluster's token");
        // Named, not a temporary: GCC 12 destroys aggregates in an awaited call twice.
        HttpAnswer unauthorized = {.status = 401, .content_type = "text/plain"};
        co_await Answer(std::move(unauthorized), request, false);
        co_return std::nullopt;
      }
      stranger_ = false;
      const std::string_view target(request.target().data(), request.target().size());
      if (websocket::is_upgrade(request) && target == kAgentTarget) {
        co_return request;
      }
      MarkIdentified();
      HttpAnswer answer = {.status = 405, .content_type = "text/plain"};
      if (request.method() == http::verb::get) {
        const std::size_t question = target.find('?');
        tcp_stream().expires_never();  // the service bounds how long it takes
        std::string page(target.substr(0, question));
        std::string query(question == std::string_view::npos ? "" : target.substr(question + 1));
        answer = co_await service_.Get(std::move(page), std::move(query));
      }
      if (!co_await Answer(std::move(answer), request, request.keep_alive())) {
        co_return std::nullopt;
      }
    }
  }

  // False when the connection is over.
  asio::awaitable<bool> Answer(HttpAnswer answer, const Request& request, bool keep_alive) {
    http::response<http::string_body> response(static_cast<http::status>(answer.status),
                                               request.version());
    response.set(http::field::server, "tfos");
    response.set(http::field::cache_control, "no-store");
    if (answer.status == 401) response.set(http::field::www_authenticate, "Bearer");
    if (!answer.content_type.empty()) {
      response.set(http::field::content_type, answer.content_type);
    }
    response.keep_alive(keep_alive);
    response.body() = std::move(answer.body);
    response.prepare_payload();
    tcp_stream().expires_after(kHttpTimeout);
    auto [error, size] = co_await http::async_write(tcp_stream(), response, kNoThrow);
    if (!error && !keep_alive) {
      error_code ignored;  // the peer may have closed first
      tcp_stream().socket().shutdown(tcp::socket::shutdown_send, ignored);
    }
    co_return !error && keep_alive;
  }

  asio::awaitable<bool> Accept(const Request& upgrade) {
    tcp_stream().expires_never();  // heartbeats watch an agent
    websocket::stream_base::timeout timeouts{};
    timeouts.handshake_timeout = identification_timeout_;
    timeouts.idle_timeout = websocket::stream_base::none();
    timeouts.keep_alive_pings = false;
    socket_.set_option(timeouts);
    socket_.read_message_max(kMaxMessageBytes);
    socket_.text(true);
    socket_.auto_fragment(false);
    auto [error] = co_await socket_.async_accept(upgrade, kNoThrow);
    if (error) LogBad("its WebSocket handshake failed: " + error.message());
    open_ = !error;
    serves_agent_ = open_;
    co_return open_;
  }

  asio::awaitable<void> ServeAgent() {
    while (true) {
      auto [error, size] = co_await socket_.async_read(buffer_, kNoThrow);
      if (error) {
        const bool ended = closing_ || error == websocket::error::closed ||
                           error == asio::error::operation_aborted || error == asio::error::eof ||
                           error == asio::error::connection_reset;
        if (!ended) LogBad(error.message());
        co_return;
      }
      const auto data = buffer_.cdata();
      const Status status =
          service_.OnMessage(*this, {static_cast<const char*>(data.data()), data.size()});
      if (!status.ok()) {
        LogBad(status.ToString());
        co_await Drain();
        co_return;
      }
      buffer_.consume(buffer_.size());
      if (buffer_.capacity() > kKeptBufferBytes) buffer_.shrink_to_fit();
    }
  }

  // After a bad message: lets what was answered to it go out, the peer's close come in.
  asio::awaitable<void> Drain() {
    LimitIdentification();
    CloseAfterSending();
    beast::flat_buffer ignored;
    while (open_) {
      auto [error, size] = co_await socket_.async_read(ignored, kNoThrow);
      if (error) co_return;
      ignored.consume(ignored.size());
    }
  }

  void WriteQueued() {
    if (std::exchange(writing_, true)) return;
    Spawn(executor_, "send to an agent", Write(),
          [self = shared_from_this()](const Status&) { self->Abort(); });
  }

  asio::awaitable<void> Write() {
    while (open_) {
      const std::optional<OutgoingMessage> message = queue_.Pop();
      if (!message.has_value()) break;
      std::vector<asio::const_buffer> parts = {asio::buffer(message->own)};
      if (message->shared != nullptr) parts.push_back(asio::buffer(*message->shared));
      auto [error, size] = co_await socket_.async_write(parts, kNoThrow);
      if (error) open_ = false;  // the reader sees the end as well and tells
    }
    if (open_ && closing_) co_await socket_.async_close(websocket::close_code::normal, kNoThrow);
    writing_ = false;
  }

  // A bad peer is worth one line, however often it errs.
  void LogBad(std::string_view what) {
    if (std::exchange(logged_, true)) return;
    const std::string line = fmt::format("closing the connection from {}: {}", peer_, what);
    if (stranger_) {
      stranger_log_.Write(line);
    } else {
      LogWarning("{}", line);
    }
  }

  asio::any_io_executor executor_;
  websocket::stream<beast::tcp_stream, /*deflateSupported=*/false> socket_;
  TimeLimit identification_limit_;
  ControlService& service_;
  net::StrangerLog& stranger_log_;
  std::shared_ptr<const std::string> authorization_;
  std::chrono::milliseconds identification_timeout_;
  std::string peer_;
  bool stranger_ = true;
  beast::flat_buffer buffer_;
  SendQueue<OutgoingMessage> queue_{kMaxQueuedBytes};
  bool open_ = false;
  bool serves_agent_ = false;  // the service must be told of its end
  bool writing_ = false;
  bool closing_ = false;
  bool logged_ = false;
};

}  // namespace tfos::control::session

#endif  // TFOS_CONTROL_LINK_CONTROL_SESSION_H_
