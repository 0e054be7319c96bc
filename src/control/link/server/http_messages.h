#ifndef TFOS_CONTROL_LINK_SERVER_HTTP_MESSAGES_H_
#define TFOS_CONTROL_LINK_SERVER_HTTP_MESSAGES_H_

#include <boost/beast/http.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "control/link/server/control_service.h"

// Requests and answers as the HTTP library has them. Only for the source of a ControlServer.
namespace tfos::control::session {

namespace http = boost::beast::http;

using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

/// For browsers: what they show comes from here alone, and no script runs that stands in a page.
inline constexpr std::string_view kContentPolicy =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

inline std::string_view Field(const Request& request, http::field name) {
  const auto field = request[name];
  return {field.data(), field.size()};
}

inline Response ResponseOf(HttpAnswer answer, const Request& request, bool keep_alive) {
  Response response(static_cast<http::status>(answer.status), request.version());
  response.set(http::field::server, "tfos");
  response.set(http::field::cache_control, "no-store");
  response.set("Content-Security-Policy", kContentPolicy);
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Referrer-Policy", "no-referrer");
  if (answer.status == 401) response.set(http::field::www_authenticate, "Bearer");
  if (!answer.content_type.empty()) response.set(http::field::content_type, answer.content_type);
  if (!answer.cookie.empty()) response.set(http::field::set_cookie, answer.cookie);
  response.keep_alive(keep_alive);
  response.body() = std::move(answer.body);
  response.prepare_payload();
  return response;
}

}  // namespace tfos::control::session

#endif  // TFOS_CONTROL_LINK_SERVER_HTTP_MESSAGES_H_
