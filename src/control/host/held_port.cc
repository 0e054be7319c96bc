#include "control/host/held_port.h"

#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/format.h"
#include "net/listen.h"

namespace tfos::control {
namespace {

std::optional<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

}  // namespace

Result<PortRange> PortRange::Parse(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = ParsePort(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : ParsePort(text.substr(dash + 1));
  const bool single_any = dash == std::string_view::npos && first == 0;
  if (!first.has_value() || !last.has_value() || *first > *last || (*first == 0 && !single_any)) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("'{}' is neither a port nor a range of ports: write 0 for any, 5000, "
                              "or 5000-5100 (spark.tfos.ports)",
                              text));
  }
  return PortRange{*first, *last};
}

Result<HeldPort> HeldPort::Bind(PortRange range, const std::string& address) {
  Status refused;
  for (unsigned port = range.first; port <= range.last; ++port) {
    Result<net::TcpListener> held = net::HoldTcpPort(address, static_cast<std::uint16_t>(port));
    if (held.ok()) return HeldPort(std::move(held->fd), held->port);
    refused = held.status();
    const int error = refused.code().value();
    if (error != EADDRINUSE && error != EACCES) return refused;
  }
  if (range.first == 0) return refused.Annotate("no TCP port is free");
  return Status(ErrorKind::kRetryLater,
                range.first == range.last
                    ? fmt::format("TCP port {} is taken ({}); set spark.tfos.ports to a range",
                                  range.first, refused.code().message())
                    : fmt::format("all TCP ports from {} to {} are taken; widen spark.tfos.ports",
                                  range.first, range.last));
}

}  // namespace tfos::control
