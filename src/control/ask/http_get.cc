#include "control/ask/http_get.h"

#include <poll.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "control/messages/protocols.h"
#include "net/handshake/handshake.h"
#include "net/poll.h"
#include "net/socket.h"
#include "net/stream.h"

namespace tfos::control {
namespace {

namespace http = boost::beast::http;

/// A status of a thousand nodes takes a few hundred kilobytes.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

Status Broken(const boost::system::error_code& error) {
  return {ErrorKind::kReconnect, "the coordinator's answer: " + error.message()};
}

/// Gives the parser what has come; drops what it has used.
Status Parse(http::response_parser<http::string_body>& parser, std::string& received) {
  while (!received.empty() && !parser.is_done()) {
    boost::system::error_code error;
    const std::size_t used = parser.put(boost::asio::buffer(received), error);
    received.erase(0, used);
    if (error == http::error::need_more) return Status::Ok();
    if (error) return Broken(error);
  }
  return Status::Ok();
}

Result<std::unique_ptr<net::Stream>> Enter(const CoordinatorAddress& coordinator,
                                           const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(UniqueFd socket, net::ConnectTcp(coordinator.host, coordinator.port, wait));
  if (coordinator.door == Door::kRead) {
    return std::unique_ptr<net::Stream>(std::make_unique<net::SocketStream>(std::move(socket)));
  }
  TFOS_ASSIGN_OR_RETURN(
      net::Connection connection,
      net::ShakeHands(std::move(socket),
                      {.protocol = coordinator.door == Door::kAsk ? kAskProtocol : kOperateProtocol,
                       .key = coordinator.key,
                       .encryption = coordinator.encryption,
                       .tls_batch_bytes = kTlsBatchBytes},
                      {}, wait));
  return std::move(connection.stream);
}

Result<HttpReply> Exchange(const CoordinatorAddress& coordinator, std::string_view method,
                           const std::string& target, const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(const std::unique_ptr<net::Stream> entered, Enter(coordinator, wait));
  net::Stream& stream = *entered;
  std::string request = fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n",
                                    method, target, coordinator.host, coordinator.port);
  if (coordinator.door == Door::kRead) {
    request += fmt::format("Authorization: Bearer {}\r\n", coordinator.key.ToHex());
  }
  request += "\r\n";
  TFOS_RETURN_IF_ERROR(net::SendAll(stream, std::as_bytes(std::span(request)), wait));
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.body_limit(kMostBytes);
  std::string received;
  while (!parser.is_done()) {
    std::array<char, 1 << 14> room;
    TFOS_ASSIGN_OR_RETURN(const net::Transfer got,
                          stream.Receive(std::as_writable_bytes(std::span(room))));
    received.append(room.data(), got.bytes);
    TFOS_RETURN_IF_ERROR(Parse(parser, received));
    if (got.ended && !parser.is_done()) {
      // Beast takes no bytes at all for an empty answer.
      if (!parser.got_some()) return Broken(http::error::end_of_stream);
      boost::system::error_code error;
      parser.put_eof(error);
      if (error) return Broken(error);
      break;
    }
    if (!got.blocked) continue;
    TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(stream.fd(), POLLIN, wait));
    if (ready == 0) {
      return Status(ErrorKind::kRetryLater, "the coordinator did not answer in time");
    }
  }
  http::response<http::string_body> answer = parser.release();
  return HttpReply{.status = answer.result_int(), .body = std::move(answer.body())};
}

}  // namespace

Result<HttpReply> HttpGet(const CoordinatorAddress& coordinator, const std::string& target,
                          const Wait& wait) {
  return Exchange(coordinator, "GET", target, wait);
}

Result<HttpReply> HttpPost(const CoordinatorAddress& coordinator, const std::string& target,
                           const Wait& wait) {
  return Exchange(coordinator, "POST", target, wait);
}

}  // namespace tfos::control
