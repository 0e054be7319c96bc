#include "base/text/endpoint.h"

#include <charconv>
#include <cstdint>

#include "base/format.h"

namespace tfos {

Result<Endpoint> Endpoint::Parse(std::string_view text) {
  const Status bad(ErrorKind::kBadInput,
                   fmt::format("'{}' is not host:port, or [address]:port for IPv6", text));
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad;
  std::string_view host = text.substr(0, colon);
  const std::string_view number = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != std::string_view::npos) {
    return bad;
  }
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), port);
  if (host.empty() || error != std::errc() || end != number.data() + number.size()) return bad;
  return Endpoint{std::string(host), port};
}

std::string Endpoint::ToString() const {
  const bool ipv6 = address.find(':') != std::string::npos;
  return ipv6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

}  // namespace tfos
