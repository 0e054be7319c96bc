#include "control/host/held_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/format.h"

namespace tfos::control {
namespace {

std::optional<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

Result<std::uint16_t> BoundPort(const UniqueFd& fd) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) < 0) {
    return Status::FromErrno(errno, "ask for the number of a bound port");
  }
  return ntohs(address.sin_port);
}

bool SetOption(const UniqueFd& fd, int option, int value) {
  return ::setsockopt(fd.get(), SOL_SOCKET, option, &value, sizeof(value)) == 0;
}

bool BindTo(const UniqueFd& fd, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(port);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

/// Binds a port on which there is nothing but connections in TIME_WAIT, as the last server's leave
/// for a minute.
///
/// Only SO_REUSEADDR binds such a port, but it also binds next to others that have set it and don't
/// listen: another holder, for one. Listening is what the kernel grants to one of them only, and
/// from then on it lets nobody bind with SO_REUSEADDR. So we listen for a moment, without the
/// option from then on, and stop: a bound socket that was shut down keeps its port.
bool BindPastTimeWait(const UniqueFd& fd, std::uint16_t port) {
  return SetOption(fd, SO_REUSEADDR, 1) && BindTo(fd, port) && ::listen(fd.get(), 0) == 0 &&
         SetOption(fd, SO_REUSEADDR, 0) && ::shutdown(fd.get(), SHUT_RD) == 0;
}

Result<UniqueFd> TryBind(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::FromErrno(errno, "open a TCP socket");
  if (!BindTo(fd, port) && (errno != EADDRINUSE || port == 0 || !BindPastTimeWait(fd, port))) {
    return Status::FromErrno(errno, fmt::format("bind TCP port {}", port));
  }
  // Only now: a bind with SO_REUSEPORT would succeed next to another holder of the same port.
  if (!SetOption(fd, SO_REUSEPORT, 1)) {
    return Status::FromErrno(errno, fmt::format("share TCP port {}", port));
  }
  return fd;
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

Result<HeldPort> HeldPort::Bind(PortRange range) {
  Status refused;
  for (unsigned port = range.first; port <= range.last; ++port) {
    Result<UniqueFd> fd = TryBind(static_cast<std::uint16_t>(port));
    if (fd.ok()) {
      TFOS_ASSIGN_OR_RETURN(const std::uint16_t bound, BoundPort(*fd));
      return HeldPort(std::move(fd).value(), bound);
    }
    refused = fd.status();
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
