#ifndef TFOS_CONTROL_LINK_SERVER_CONTROL_SESSION_H_
#define TFOS_CONTROL_LINK_SERVER_CONTROL_SESSION_H_

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/logging.h"
#include "base/time/seconds_text.h"
#include "control/link/send_queue.h"
#include "control/link/server/control_service.h"
#include "control/link/server/http_messages.h"
#include "control/link/server/page_keys.h"
#include "control/link/server/tensorboard_messages.h"
#include "control/link/server/tunnels.h"
#include "control/link/server/visitor.h"
#include "control/link/spawn.h"
#include "control/link/stream/async_stream.h"
#include "control/link/time_limit.h"
#include "control/link/tunnel/relay.h"
#include "control/messages/parts/message_text.h"
#include "net/stranger_log.h"
#include "net/stream.h"

// One connection of a ControlServer. Only for its source: everything here takes long to compile.
namespace tfos::control::session {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using boost::system::error_code;

inline constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
inline constexpr std::size_t kMaxHeaderBytes = 8192;
inline constexpr std::string_view kAgentTarget = "/v1/agent";
// A long poll lasts up to 10 s; this also bounds writing an answer.
inline constexpr std::chrono::seconds kHttpTimeout(30);
// A buffer that one long message has stretched is given back.
inline constexpr std::size_t kKeptBufferBytes = 65536;

/// One accepted connection: HTTP requests, or after an upgrade one agent.
/// Owner and lifetime: shared by the server and its own operations. Threads: those of one
/// single-threaded executor.
class Session final : public AgentConnection, public std::enable_shared_from_this<Session> {
 public:
  Session(const asio::any_io_executor& executor, Visitor visitor, ControlService& service,
          net::StrangerLog& stranger_log, std::shared_ptr<const PageKeys> keys, Tunnels& tunnels,
          std::chrono::milliseconds timeout)
      : executor_(executor),
        socket_(executor, std::move(visitor.stream)),
        identification_limit_(executor),
        exchange_limit_(executor),
        service_(service),
        stranger_log_(stranger_log),
        keys_(std::move(keys)),
        tunnels_(tunnels),
        identification_timeout_(timeout),
        peer_(std::move(visitor.peer)),
        came_as_(visitor.came_as),
        node_id_(visitor.node_id),
        stranger_(came_as_ == CameAs::kStranger) {
    asio::buffer_copy(buffer_.prepare(visitor.received.size()), asio::buffer(visitor.received));
    buffer_.commit(visitor.received.size());
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
    WriteIf(queue_.Push(std::move(message), size));
  }

  void SendLatest(std::string_view kind, OutgoingMessage message) override {
    if (!open_) return;
    const std::size_t size = message.own.size();
    WriteIf(queue_.PushLatest(
        kind, [message = std::move(message)] { return message; }, size));
  }

  void CloseAfterSending() override {
    closing_ = true;
    WriteQueued();
  }

  void Abort() override {
    open_ = false;
    identification_limit_.Lift();
    exchange_limit_.Lift();
    stream().Close();
  }

  void MarkIdentified() override { identification_limit_.Lift(); }
  int node_id() const override { return node_id_; }

  // True until the peer has shown a key.
  bool is_stranger() const { return stranger_; }

  // Closes the connection because of `what`.
  void Refuse(std::string_view what) {
    LogBad(what);
    stream().Close();
  }

 private:
  AsyncStream& stream() { return socket_.next_layer(); }

  // For what is read or written next.
  void LimitExchange() {
    exchange_limit_.Set(kHttpTimeout, [this] { stream().Close(); });
  }

  void LimitIdentification() {
    identification_limit_.Set(identification_timeout_, [this] {
      Refuse(
          fmt::format("it did not authenticate within {}", SecondsText(identification_timeout_)));
    });
  }

  // Serves requests until the connection ends (nullopt) or asks to become an agent's.
  asio::awaitable<std::optional<Request>> ServeHttp() {
    while (true) {
      http::request_parser<http::empty_body> parser;
      parser.header_limit(kMaxHeaderBytes);
      parser.body_limit(boost::none);  // Only TensorBoard's are read, and passed on.
      LimitExchange();
      auto [error, size] = co_await http::async_read_header(stream(), buffer_, parser, kNoThrow);
      exchange_limit_.Lift();  // What answers bounds how long it takes.
      if (error) {
        const bool ended = error == http::error::end_of_stream ||
                           error == asio::error::operation_aborted ||
                           error == asio::error::connection_reset;
        LogChanged();
        if (!ended) LogBad("its request is not one: " + error.message());
        co_return std::nullopt;
      }
      const Request request = parser.release();
      const std::string_view target(request.target().data(), request.target().size());
      const std::size_t question = target.find('?');
      const std::string_view page = target.substr(0, question);
      const std::string_view query =
          question == std::string_view::npos ? "" : target.substr(question + 1);
      // Named, not a condition: GCC 12 takes one that awaits for unreachable.
      const bool let_in = co_await LetIn(request, page, query);
      if (!let_in) co_return std::nullopt;
      if (came_as_ == CameAs::kAgent) {
        if (websocket::is_upgrade(request) && target == kAgentTarget) co_return request;
        LogBad("it came as an agent, and asks for something else");
        co_return std::nullopt;
      }
      MarkIdentified();
      if (PageKeys::IsTensorBoard(page)) {
        co_await ShowTensorBoard(request);
        co_return std::nullopt;
      }
      if (!parser.is_done()) {
        LogBad("its request has a body");
        co_return std::nullopt;
      }
      HttpAnswer answer = {.status = 405, .content_type = "text/plain"};
      if (request.method() == http::verb::get) {
        const Asker asker = came_as_ == CameAs::kOperator ? Asker::kOperator : Asker::kReader;
        answer = co_await service_.Get(std::string(page), std::string(query), asker);
      } else if (request.method() == http::verb::post && came_as_ == CameAs::kOperator) {
        answer = co_await service_.Post(std::string(page), std::string(query));
      }
      if (!co_await Answer(std::move(answer), request, request.keep_alive())) {
        co_return std::nullopt;
      }
    }
  }

  // Whether the peer has shown the key for a page; if not, it was answered.
  asio::awaitable<bool> LetIn(const Request& request, std::string_view page,
                              std::string_view query) {
    const bool for_bearers = page == PageKeys::kMetrics || PageKeys::IsTensorBoard(page);
    if (came_as_ == CameAs::kStranger && PageKeys::IsPublic(page)) {
      co_await AnswerStranger(request, page);
      co_return false;
    }
    if (came_as_ == CameAs::kAgent || (came_as_ == CameAs::kOperator && !for_bearers) ||
        (came_as_ == CameAs::kAsker && !for_bearers && !PageKeys::IsForPeople(page))) {
      co_return true;
    }
    // Named, not a temporary: GCC 12 destroys aggregates in an awaited call twice.
    HttpAnswer answer = {.status = 401, .content_type = "text/plain"};
    std::optional<std::string> cookie;
    if (PageKeys::IsTensorBoard(page)) cookie = keys_->CookieFor(page, query);
    if (cookie.has_value()) {
      // The key leaves the browser's line of addresses. Not by a redirect: after one from a link on
      // another site, a browser keeps back a cookie that is SameSite=Strict.
      answer.status = 200;
      answer.content_type = "text/html";
      // Relative: a proxy may show the page below a path.
      answer.body = "<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0;url=./\">\n";
      answer.cookie = *std::move(cookie);
    } else if (keys_->Open(page, Field(request, http::field::authorization),
                           Field(request, http::field::cookie))) {
      stranger_ = false;
      co_return true;
    } else {
      LogBad("it does not have the key for what it asks for");
    }
    co_await Answer(std::move(answer), request, false);
    co_return false;
  }

  // A file that everybody may have. The peer that gets it stays a stranger, and does not keep the
  // connection.
  asio::awaitable<void> AnswerStranger(const Request& request, std::string_view page) {
    HttpAnswer answer = {.status = 405, .content_type = "text/plain"};
    if (request.method() == http::verb::get) {
      answer = co_await service_.Get(std::string(page), std::string(), Asker::kReader);
    }
    co_await Answer(std::move(answer), request, false);
  }

  // Passes a request on through its agent, and what comes back.
  asio::awaitable<void> ShowTensorBoard(const Request& request) {
    if (IsForServiceWorker(request)) {
      HttpAnswer refused = {
          .status = 403,
          .content_type = "text/plain",
          .body = "TensorBoard gets no service worker: it could change the page\n"};
      co_await Answer(std::move(refused), request, false);
      co_return;
    }
    std::unique_ptr<net::Stream> tunnel = co_await tunnels_.Open(service_);
    if (tunnel == nullptr) {
      HttpAnswer none = {.status = 503,
                         .content_type = "text/plain",
                         .body = "TensorBoard does not listen (yet): its node's log may say why\n"};
      co_await Answer(std::move(none), request, false);
      co_return;
    }
    const auto far = std::make_shared<AsyncStream>(executor_, std::move(tunnel));
    std::string said = HeadForTensorBoard(request);
    said += beast::buffers_to_string(buffer_.data());
    auto [error, size] = co_await asio::async_write(*far, asio::buffer(said), kNoThrow);
    if (error) co_return;
    std::shared_ptr<AsyncStream> near(shared_from_this(), &stream());
    co_await Relay(std::move(near), far, PassHeadFromTensorBoard);
    LogChanged(*far, "data of TensorBoard from the agent of its node");
  }

  // False when the connection is over.
  asio::awaitable<bool> Answer(HttpAnswer answer, const Request& request, bool keep_alive) {
    const std::function<void()> on_sent = std::move(answer.on_sent);
    Response response = ResponseOf(std::move(answer), request, keep_alive);
    LimitExchange();
    auto [error, size] = co_await http::async_write(stream(), response, kNoThrow);
    exchange_limit_.Lift();
    if (!error && on_sent) on_sent();
    if (!error && !keep_alive) stream().ShutDownSending();
    co_return !error && keep_alive;
  }

  asio::awaitable<bool> Accept(const Request& upgrade) {
    websocket::stream_base::timeout timeouts{};
    timeouts.handshake_timeout = identification_timeout_;
    timeouts.idle_timeout = websocket::stream_base::none();  // Heartbeats watch an agent.
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
        LogChanged();
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

  // `fits`: what is to be sent has found room.
  void WriteIf(bool fits) {
    if (fits) return WriteQueued();
    LogBad(fmt::format("it has left {} MiB of messages unread", kMaxQueuedBytes >> 20));
    Abort();
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

  // TLS has refused what came.
  void LogChanged() { LogChanged(stream(), "data"); }
  void LogChanged(const AsyncStream& from, std::string_view what) {
    const Status& failure = from.failure();
    if (failure.ok() || failure.kind() != ErrorKind::kBadInput) return;
    LogBad(fmt::format("{} was altered in transit: {}", what, failure.ToString()));
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
  websocket::stream<AsyncStream, /*deflateSupported=*/false> socket_;
  TimeLimit identification_limit_;
  TimeLimit exchange_limit_;
  ControlService& service_;
  net::StrangerLog& stranger_log_;
  std::shared_ptr<const PageKeys> keys_;
  Tunnels& tunnels_;
  std::chrono::milliseconds identification_timeout_;
  std::string peer_;
  const CameAs came_as_;
  const int node_id_;
  bool stranger_;
  beast::flat_buffer buffer_;
  SendQueue<OutgoingMessage> queue_{kMaxQueuedBytes};
  bool open_ = false;
  bool serves_agent_ = false;  // the service must be told of its end
  bool writing_ = false;
  bool closing_ = false;
  bool logged_ = false;
};

}  // namespace tfos::control::session

#endif  // TFOS_CONTROL_LINK_SERVER_CONTROL_SESSION_H_
