#include "net/listen.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "base/process/unique_fd.h"
#include "testing/no_ipv6.h"

namespace tfos::net {
namespace {

using testing::Ipv6;
using testing::NoIpv6;

/// The family that a socket is bound to.
int FamilyOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return address.ss_family;
}

bool ConnectsOverIpv4(std::uint16_t port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

/// By how the host refuses IPv6.
class ListenWithoutIpv6Test : public ::testing::TestWithParam<Ipv6> {};

TEST_P(ListenWithoutIpv6Test, AllAddressesAreThoseOfIpv4) {
  const NoIpv6 host(GetParam());
  for (const std::string all : {"0.0.0.0", "::"}) {
    const Result<TcpListener> listener = ListenTcp(all, 0, 0);
    ASSERT_TRUE(listener.ok()) << listener.status().ToString();
    EXPECT_EQ(FamilyOf(listener->fd.get()), AF_INET);
    EXPECT_TRUE(ConnectsOverIpv4(listener->port));
    const Result<TcpListener> second = ListenTcp(all, listener->port, listener->port);
    EXPECT_EQ(second.status().code().value(), EADDRINUSE) << second.status().ToString();
  }
}

TEST_P(ListenWithoutIpv6Test, APortIsHeldForIpv4) {
  const NoIpv6 host(GetParam());
  const Result<TcpListener> held = HoldTcpPort("0.0.0.0", 0);
  ASSERT_TRUE(held.ok()) << held.status().ToString();
  EXPECT_EQ(FamilyOf(held->fd.get()), AF_INET);
  EXPECT_EQ(HoldTcpPort("0.0.0.0", held->port).status().code().value(), EADDRINUSE);
  ASSERT_TRUE(ListenOn(held->fd.get(), "on the port").ok());
  EXPECT_TRUE(ConnectsOverIpv4(held->port));
}

TEST_P(ListenWithoutIpv6Test, AnAddressOfIpv6IsAnError) {
  const NoIpv6 host(GetParam());
  const int expected = GetParam() == Ipv6::kNoSuchFamily ? EAFNOSUPPORT : EADDRNOTAVAIL;
  EXPECT_EQ(ListenTcp("::1", 0, 0).status().code().value(), expected);
}

INSTANTIATE_TEST_SUITE_P(All, ListenWithoutIpv6Test,
                         ::testing::Values(Ipv6::kNoSuchFamily, Ipv6::kNoSuchAddress));

}  // namespace
}  // namespace tfos::net
