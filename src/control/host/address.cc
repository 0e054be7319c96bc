#include "control/host/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstring>
#include <optional>

#include "base/process/unique_fd.h"

namespace tfos::control {
namespace {

// Addresses of the documentation networks: routed like any other, used by nobody.
constexpr const char* kAnywhere4 = "192.0.2.1";
constexpr const char* kAnywhere6 = "2001:db8::1";

template <typename SocketAddress>
std::optional<std::string> LocalAddressTowards(int family, const SocketAddress& remote,
                                               const auto SocketAddress::*address_field) {
  UniqueFd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // Connecting a datagram socket only chooses the route.
  if (!fd.valid() ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&remote), sizeof(remote)) < 0) {
    return std::nullopt;
  }
  SocketAddress local{};
  socklen_t size = sizeof(local);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) < 0) return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_ntop(family, &(local.*address_field), text.data(), text.size()) == nullptr) {
    return std::nullopt;
  }
  return std::string(text.data());
}

}  // namespace

std::string ReachableAddress() {
  sockaddr_in remote4{};
  remote4.sin_family = AF_INET;
  remote4.sin_port = htons(9);
  ::inet_pton(AF_INET, kAnywhere4, &remote4.sin_addr);
  if (auto local = LocalAddressTowards(AF_INET, remote4, &sockaddr_in::sin_addr)) return *local;
  sockaddr_in6 remote6{};
  remote6.sin6_family = AF_INET6;
  remote6.sin6_port = htons(9);
  ::inet_pton(AF_INET6, kAnywhere6, &remote6.sin6_addr);
  if (auto local = LocalAddressTowards(AF_INET6, remote6, &sockaddr_in6::sin6_addr)) return *local;
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0') return name.data();
  return "127.0.0.1";
}

std::string AdvertisedAddress(const std::string& advertised, const std::string& bound) {
  if (!advertised.empty()) return advertised;
  if (!bound.empty() && bound != "0.0.0.0" && bound != "::") return bound;
  return ReachableAddress();
}

}  // namespace tfos::control
