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

/// Whichever of the two it is: a host may have addresses of IPv6 alone.
bool IsAll(const std::string& address) { return address == "0.0.0.0" || address == "::"; }

/// A socket that is yet to be bound, to one address or to all of the host's.
class UnboundSocket {
 public:
  static Result<UnboundSocket> Open(const std::string& address, std::uint16_t port, int flags) {
    UnboundSocket opened(IsAll(address), port, flags);
    // Of IPv6, those of IPv4 included. Without IPv6 in the kernel: of IPv4.
    TFOS_ASSIGN_OR_RETURN(opened.address_, NumericAddress(opened.is_all_ ? "::" : address, port));
    opened.fd_.Reset(opened.OpenOfFamily());
    if (opened.is_all_ &&
        (!opened.fd_.valid() || !SetOption(opened.fd_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0))) {
      TFOS_RETURN_IF_ERROR(opened.FallBack());
    }
    if (!opened.fd_.valid()) return Status::FromErrno(errno, "create a TCP socket");
    return opened;
  }

  /// Binds it, or says why not in errno.
  bool Bind(bool reuse_address) {
    if (BindOnce(reuse_address)) return true;
    // The kernel knows IPv6, and this host has switched it off.
    const bool has_no_ipv6 = is_all_ && errno == EADDRNOTAVAIL && address_->ai_family == AF_INET6;
    return has_no_ipv6 && FallBack().ok() && fd_.valid() && BindOnce(reuse_address);
  }

  int fd() const { return fd_.get(); }
  UniqueFd Take() { return std::move(fd_); }

 private:
  UnboundSocket(bool is_all, std::uint16_t port, int flags)
      : is_all_(is_all), port_(port), flags_(flags) {}

  int OpenOfFamily() const { return ::socket(address_->ai_family, SOCK_STREAM | flags_, 0); }

  Status FallBack() {
    TFOS_ASSIGN_OR_RETURN(address_, NumericAddress("0.0.0.0", port_));
    fd_.Reset(OpenOfFamily());
    return {};
  }

  bool BindOnce(bool reuse_address) {
    if (reuse_address) SetOption(fd_.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    return ::bind(fd_.get(), address_->ai_addr, address_->ai_addrlen) == 0;
  }

  bool is_all_;
  std::uint16_t port_;
  int flags_;
  Addresses address_;
  UniqueFd fd_;
};

/// Binds a port on which there is nothing but connections in TIME_WAIT, as the last server's leave
/// for a minute.
///
/// Only SO_REUSEADDR binds such a port, but it also binds next to others that have set it and don't
/// listen: another holder, for one. Listening is what the kernel grants to one of them only, and
/// from then on it lets nobody bind with SO_REUSEADDR. So we listen for a moment, without the
/// option from then on, and stop: a bound socket that was shut down keeps its port.
bool BindPastTimeWait(UnboundSocket& socket) {
  return socket.Bind(/*reuse_address=*/true) && ::listen(socket.fd(), 0) == 0 &&
         SetOption(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 0) &&
         ::shutdown(socket.fd(), SHUT_RD) == 0;
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
  for (unsigned port = first; port <= last; ++port) {
    const auto number = static_cast<std::uint16_t>(port);
    TFOS_ASSIGN_OR_RETURN(UnboundSocket socket, UnboundSocket::Open(address, number, kSocketFlags));
    if (socket.Bind(/*reuse_address=*/true) && ::listen(socket.fd(), kBacklog) == 0) {
      TFOS_ASSIGN_OR_RETURN(const std::uint16_t bound, LocalPort(socket.fd()));
      return TcpListener{socket.Take(), bound};
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

Result<TcpListener> HoldTcpPort(const std::string& address, std::uint16_t port) {
  TFOS_ASSIGN_OR_RETURN(UnboundSocket socket, UnboundSocket::Open(address, port, SOCK_CLOEXEC));
  if (!socket.Bind(/*reuse_address=*/false) &&
      (errno != EADDRINUSE || port == 0 || !BindPastTimeWait(socket))) {
    return Status::FromErrno(errno, fmt::format("bind TCP port {} on {}", port, address));
  }
  // Only now: a bind with SO_REUSEPORT would succeed next to another holder of the same port.
  if (!SetOption(socket.fd(), SOL_SOCKET, SO_REUSEPORT, 1)) {
    return Status::FromErrno(errno, fmt::format("share TCP port {}", port));
  }
  TFOS_ASSIGN_OR_RETURN(const std::uint16_t number, LocalPort(socket.fd()));
  return TcpListener{socket.Take(), number};
}

}  // namespace tfos::net
