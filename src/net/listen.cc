#include "net/listen.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/format.h"
#include "net/resolve.h"
#include "net/unix_address.h"

namespace tfos::net {
namespace {

constexpr int kBacklog = 1024;
constexpr int kSocketFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;

bool SetOption(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

/// A socket for all of the host's addresses. Without IPv6 in the kernel: for those of IPv4.
UniqueFd OpenForAll(int& family, int flags) {
  family = AF_INET6;
  UniqueFd fd(::socket(family, SOCK_STREAM | flags, 0));
  if (fd.valid() && SetOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0)) return fd;
  family = AF_INET;
  return UniqueFd(::socket(family, SOCK_STREAM | flags, 0));
}

bool BindToAll(int fd, int family, std::uint16_t port) {
  sockaddr_in6 all6{};
  all6.sin6_family = AF_INET6;
  all6.sin6_port = htons(port);
  sockaddr_in all4{};
  all4.sin_family = AF_INET;
  all4.sin_port = htons(port);
  return family == AF_INET6
             ? ::bind(fd, reinterpret_cast<const sockaddr*>(&all6), sizeof(all6)) == 0
             : ::bind(fd, reinterpret_cast<const sockaddr*>(&all4), sizeof(all4)) == 0;
}

/// The kernel knows IPv6, and this host has switched it off.
bool HasNoIpv6(int family) { return errno == EADDRNOTAVAIL && family == AF_INET6; }

/// Binds a port on which there is nothing but connections in TIME_WAIT, as the last server's leave
/// for a minute.
///
/// Only SO_REUSEADDR binds such a port, but it also binds next to others that have set it and don't
/// listen: another holder, for one. Listening is what the kernel grants to one of them only, and
/// from then on it lets nobody bind with SO_REUSEADDR. So we listen for a moment, without the
/// option from then on, and stop: a bound socket that was shut down keeps its port.
bool BindPastTimeWait(int fd, int family, std::uint16_t port) {
  return SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1) && BindToAll(fd, family, port) &&
         ::listen(fd, 0) == 0 && SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 0) &&
         ::shutdown(fd, SHUT_RD) == 0;
}

}  // namespace

Result<std::uint16_t> LocalPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return Status::FromErrno(errno, "ask for the port that was bound");
  }
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
             : ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Result<UniqueFd> ListenUnix(std::string_view name) {
  TFOS_ASSIGN_OR_RETURN(const UnixAddress address, AbstractAddress(name));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | kSocketFlags, 0));
  if (!fd.valid()) return Status::FromErrno(errno, "create a Unix socket");
  if (::bind(fd.get(), address.get(), address.size) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return Status::FromErrno(errno, "listen on a Unix socket");
  }
  return fd;
}

Result<TcpListener> ListenTcp(const std::string& address, std::uint16_t first, std::uint16_t last) {
  if (first > last) {
    return Status(ErrorKind::kBadInput, fmt::format("a port range from {} to {}", first, last));
  }
  // Whichever of the two it is: a host may have addresses of IPv6 alone.
  const bool on_all = address == "0.0.0.0" || address == "::";
  for (unsigned port = first; port <= last; ++port) {
    const auto number = static_cast<std::uint16_t>(port);
    TFOS_ASSIGN_OR_RETURN(const Addresses addresses, NumericAddress(address, number));
    int family = addresses->ai_family;
    UniqueFd fd = on_all ? OpenForAll(family, kSocketFlags)
                         : UniqueFd(::socket(family, SOCK_STREAM | kSocketFlags, 0));
    if (!fd.valid()) return Status::FromErrno(errno, "create a TCP socket");
    const auto bind = [&] {
      SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
      return on_all ? BindToAll(fd.get(), family, number)
                    : ::bind(fd.get(), addresses->ai_addr, addresses->ai_addrlen) == 0;
    };
    bool is_bound = bind();
    if (!is_bound && on_all && HasNoIpv6(family)) {
      family = AF_INET;
      fd.Reset(::socket(family, SOCK_STREAM | kSocketFlags, 0));
      is_bound = fd.valid() && bind();
    }
    if (is_bound && ::listen(fd.get(), kBacklog) == 0) {
      TFOS_ASSIGN_OR_RETURN(const std::uint16_t bound, LocalPort(fd.get()));
      return TcpListener{std::move(fd), bound};
    }
    if (errno != EADDRINUSE) {
      return Status::FromErrno(errno, fmt::format("listen on {} port {}", address, port));
    }
  }
  const std::string where = first == last ? fmt::format("port {}", first)
                                          : fmt::format("any of the ports {}-{}", first, last);
  return Status::FromErrno(EADDRINUSE, fmt::format("listen on {}, {}", address, where));
}

Status ListenOn(int fd, std::string_view what) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || ::listen(fd, kBacklog) != 0) {
    return Status::FromErrno(errno, fmt::format("listen {}", what));
  }
  return {};
}

Result<TcpListener> HoldTcpPort(std::uint16_t port) {
  int family = AF_INET6;
  UniqueFd fd = OpenForAll(family, SOCK_CLOEXEC);
  if (!fd.valid()) return Status::FromErrno(errno, "open a TCP socket");
  bool bound = BindToAll(fd.get(), family, port);
  if (!bound && HasNoIpv6(family)) {
    family = AF_INET;
    fd.Reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    bound = fd.valid() && BindToAll(fd.get(), family, port);
  }
  if (!bound && (errno != EADDRINUSE || port == 0 || !BindPastTimeWait(fd.get(), family, port))) {
    return Status::FromErrno(errno, fmt::format("bind TCP port {}", port));
  }
  // Only now: a bind with SO_REUSEPORT would succeed next to another holder of the same port.
  if (!SetOption(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1)) {
    return Status::FromErrno(errno, fmt::format("share TCP port {}", port));
  }
  TFOS_ASSIGN_OR_RETURN(const std::uint16_t number, LocalPort(fd.get()));
  return TcpListener{std::move(fd), number};
}

}  // namespace tfos::net
