#ifndef TFOS_NET_UNIX_ADDRESS_H_
#define TFOS_NET_UNIX_ADDRESS_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/format.h"
#include "tfos/status.h"

namespace tfos::net {

struct UnixAddress {
  sockaddr_un address{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// `name` in the abstract namespace: the leading NUL is added here.
inline Result<UnixAddress> AbstractAddress(std::string_view name) {
  UnixAddress result;
  if (name.empty() || name.size() >= sizeof(result.address.sun_path)) {
    return Status(ErrorKind::kBadInput, fmt::format("a socket name of {} characters", name.size()));
  }
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

}  // namespace tfos::net

#endif  // TFOS_NET_UNIX_ADDRESS_H_
