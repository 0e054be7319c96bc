#include "net/handshake/protocol.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/text/choice.h"

namespace tfos::net {
namespace {

constexpr Choice<Encryption> kEncryptions[] = {{"auto", Encryption::kBetweenHosts},
                                               {"true", Encryption::kAlways},
                                               {"false", Encryption::kNever}};

/// An address without the port: of IPv6, and of IPv4 as IPv6 has it (RFC 4291, 2.5.5.2).
in6_addr HostOf(const sockaddr_storage& address) {
  in6_addr host{};
  if (address.ss_family == AF_INET6) {
    return reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  }
  host.s6_addr[10] = 0xff;
  host.s6_addr[11] = 0xff;
  std::memcpy(host.s6_addr + 12, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  return host;
}

bool IsLoopback(const in6_addr& host) {
  return IN6_IS_ADDR_LOOPBACK(&host) || (IN6_IS_ADDR_V4MAPPED(&host) && host.s6_addr[12] == 127);
}

}  // namespace

std::string_view ChannelName(Channel channel) {
  switch (channel) {
    case Channel::kLocal:
      return "a Unix socket";
    case Channel::kPlain:
      return "plain TCP";
    case Channel::kTls:
      return "TLS";
  }
  return "an unknown channel";
}

Result<Encryption> EncryptionFromWord(std::string_view word) {
  return ChoiceNamed("spark.tfos.encrypt", kEncryptions, word);
}

Result<Channel> LeastChannel(int socket, Encryption encryption) {
  sockaddr_storage ours{};
  sockaddr_storage theirs{};
  socklen_t size = sizeof(ours);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&ours), &size) != 0) {
    return Status::FromErrno(errno, "ask a socket for its address");
  }
  if (ours.ss_family == AF_UNIX) return Channel::kLocal;
  if (encryption == Encryption::kNever) return Channel::kPlain;
  if (encryption == Encryption::kAlways) return Channel::kTls;
  size = sizeof(theirs);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &size) != 0) {
    return Status::FromErrno(errno, "ask a socket for its peer's address");
  }
  const in6_addr one = HostOf(ours);
  const in6_addr other = HostOf(theirs);
  // Packets between two such ends never leave the host, and no other host can send them.
  const bool within =
      std::memcmp(&one, &other, sizeof(one)) == 0 || (IsLoopback(one) && IsLoopback(other));
  return within ? Channel::kPlain : Channel::kTls;
}

}  // namespace tfos::net
