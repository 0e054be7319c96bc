#include "net/handshake/crowd.h"

#include <netinet/in.h>

#include <cstring>
#include <limits>

namespace tfos::net {
namespace {

std::uint64_t BigEndian(const unsigned char* bytes, int count) {
  std::uint64_t number = 0;
  for (int i = 0; i < count; ++i) number = number << 8 | bytes[i];
  return number;
}

}  // namespace

Origin Origin::Of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof(v4));
    return {.network = ntohl(v4.sin_addr.s_addr)};
  }
  // No host has this address.
  if (address.ss_family != AF_INET6) return {.network = std::numeric_limits<std::uint64_t>::max()};
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address, sizeof(v6));
  const unsigned char* const bytes = v6.sin6_addr.s6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return {.network = BigEndian(bytes + 12, 4)};
  return {.network = BigEndian(bytes, 8), .host = BigEndian(bytes + 8, 8)};
}

void Crowd::Add(const Origin& origin, std::uint64_t number) {
  networks_.Update(origin.network, [&](Groups<Host>& hosts) {
    hosts.Update(origin.host, [&](Host& host) { host.numbers.insert(number); });
  });
}

void Crowd::Remove(const Origin& origin, std::uint64_t number) {
  networks_.Update(origin.network, [&](Groups<Host>& hosts) {
    hosts.Update(origin.host, [&](Host& host) { host.numbers.erase(number); });
  });
}

}  // namespace tfos::net
