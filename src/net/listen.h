#ifndef TFOS_NET_LISTEN_H_
#define TFOS_NET_LISTEN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/process/unique_fd.h"
#include "tfos/status.h"

// Where every socket that others connect to is bound. All are closed on exec.
namespace tfos::net {

/// Listens on `name` in the abstract namespace (no file; the leading NUL is added here).
Result<UniqueFd> ListenUnix(std::string_view name);

/// A TCP socket that is bound, and the port that it has got.
struct TcpListener {
  UniqueFd fd;
  std::uint16_t port = 0;
};

/// The port that a TCP socket is bound to.
Result<std::uint16_t> LocalPort(int fd);

/// Listens on the first free port of [first, last] at a numeric `address`. "0.0.0.0" and "::" are
/// all of the host's addresses, those of IPv6 included where the host has IPv6.
Result<TcpListener> ListenTcp(const std::string& address, std::uint16_t first, std::uint16_t last);

/// Listens on a socket that somebody has bound, and makes it non-blocking. `what` follows "listen".
Status ListenOn(int fd, std::string_view what);

/// Binds `port` at a numeric `address`, as ListenTcp, and keeps it for a server that starts later
/// and shares it (SO_REUSEPORT). It does not listen. A port on which only closed connections linger
/// (TIME_WAIT) is free.
/// Errors: EADDRINUSE, EACCES and the like as codes.
Result<TcpListener> HoldTcpPort(const std::string& address, std::uint16_t port);

}  // namespace tfos::net

#endif  // TFOS_NET_LISTEN_H_
