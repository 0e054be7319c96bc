#ifndef TFOS_TESTING_NO_IPV6_H_
#define TFOS_TESTING_NO_IPV6_H_

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

// For a test alone, in one source: its executable's own socket and bind, which know no IPv6 while a
// test says so. A network namespace can't stand for such a host: with IPv6 switched off in it
// (net.ipv6.conf.all.disable_ipv6), what is bound to "::" takes connections of IPv4 all the same.
namespace tfos::testing {

/// How a host without IPv6 refuses it.
enum class Ipv6 {
  kIsThere,
  kNoSuchFamily,   // socket() fails: ipv6.disable=1, or a kernel that was built without it
  kNoSuchAddress,  // bind() fails: the kernel knows it, and it is switched off
};

inline std::atomic<Ipv6> ipv6_of_host = Ipv6::kIsThere;

/// Has the host refuse IPv6 for a scope.
///
/// Owner and lifetime: a local, one at a time. Threads: it is for all.
class NoIpv6 {
 public:
  explicit NoIpv6(Ipv6 how) { ipv6_of_host = how; }
  ~NoIpv6() { ipv6_of_host = Ipv6::kIsThere; }
  NoIpv6(const NoIpv6&) = delete;
  NoIpv6& operator=(const NoIpv6&) = delete;
};

}  // namespace tfos::testing

extern "C" int socket(int domain, int type, int protocol) noexcept {
  if (domain == AF_INET6 && tfos::testing::ipv6_of_host == tfos::testing::Ipv6::kNoSuchFamily) {
    errno = EAFNOSUPPORT;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_socket, domain, type, protocol));
}

extern "C" int bind(int fd, const sockaddr* address, socklen_t size) noexcept {
  if (address->sa_family == AF_INET6 &&
      tfos::testing::ipv6_of_host == tfos::testing::Ipv6::kNoSuchAddress) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_bind, fd, address, size));
}

#endif  // TFOS_TESTING_NO_IPV6_H_
