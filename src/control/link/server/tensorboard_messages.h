#ifndef TFOS_CONTROL_LINK_SERVER_TENSORBOARD_MESSAGES_H_
#define TFOS_CONTROL_LINK_SERVER_TENSORBOARD_MESSAGES_H_

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "control/link/server/http_messages.h"
#include "control/link/stream/async_stream.h"

// What goes between a browser and the TensorBoard beside a node, whose process may be anybody's.
// Only for the source of a ControlServer.
namespace tfos::control::session {

inline constexpr std::size_t kMaxTensorBoardHeaderBytes = 65536;  ///< Of an answer.

/// What a browser would apply to the page or to the whole host, and keep.
inline constexpr std::array<std::string_view, 8> kBeyondTensorBoard = {
    "Accept-CH", "Alt-Svc",    "Clear-Site-Data",        "NEL",
    "Report-To", "Set-Cookie", "Service-Worker-Allowed", "Strict-Transport-Security"};

/// Whether a browser wants to run what comes in front of the page, for as long as it likes.
inline bool IsForServiceWorker(const Request& request) {
  return request.count("Service-Worker") > 0;
}

/// A request's head for TensorBoard, which learns no key and answers one request only.
inline std::string HeadForTensorBoard(Request request) {
  request.erase(http::field::authorization);
  request.erase(http::field::cookie);
  request.set(http::field::connection, "close");
  std::ostringstream head;
  head << request.base();
  return std::move(head).str();
}

/// The head of an answer of TensorBoard for a browser. The browser must not send the next request
/// over the same connection: the node would get it, with the key to read.
inline std::string HeadFromTensorBoard(http::response<http::empty_body> answer) {
  for (const std::string_view name : kBeyondTensorBoard) answer.erase(name);
  answer.set(http::field::connection, "close");
  std::ostringstream head;
  head << answer.base();
  return std::move(head).str();
}

/// Passes the head of an answer on. Others, such as "103 Early Hints", may come before it. False:
/// none came.
inline boost::asio::awaitable<bool> PassHeadFromTensorBoard(AsyncStream& from, AsyncStream& to) {
  constexpr auto kNoThrow = boost::asio::as_tuple(boost::asio::use_awaitable);
  boost::beast::flat_buffer received;
  bool more = true;
  while (more) {
    http::response_parser<http::empty_body> parser;
    parser.header_limit(kMaxTensorBoardHeaderBytes);
    parser.body_limit(boost::none);
    auto [error, size] = co_await http::async_read_header(from, received, parser, kNoThrow);
    if (error) co_return false;
    more = parser.get().result_int() < 200;
    std::string said = HeadFromTensorBoard(parser.release());
    if (!more) said += boost::beast::buffers_to_string(received.data());
    auto [broken, sent] =
        co_await boost::asio::async_write(to, boost::asio::buffer(said), kNoThrow);
    if (broken) co_return false;
  }
  co_return true;
}

}  // namespace tfos::control::session

#endif  // TFOS_CONTROL_LINK_SERVER_TENSORBOARD_MESSAGES_H_
