#include "control/host/held_port.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace tfos::control {
namespace {

using ::testing::HasSubstr;

TEST(PortRangeTest, ReadsItsThreeForms) {
  auto any = PortRange::Parse("0");
  ASSERT_TRUE(any.ok());
  EXPECT_EQ(any->first, 0);
  auto one = PortRange::Parse("5000");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->last, 5000);
  auto range = PortRange::Parse("5000-5100");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->first, 5000);
  EXPECT_EQ(range->last, 5100);
}

TEST(PortRangeTest, RefusesTheRest) {
  for (const char* text : {"", "x", "5100-5000", "0-10", "5000-", "-5", "70000", "5000 "}) {
    auto range = PortRange::Parse(text);
    ASSERT_FALSE(range.ok()) << text;
    EXPECT_EQ(range.status().kind(), ErrorKind::kBadInput);
  }
}

sockaddr_in AddressOf(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return address;
}

bool Bind(const UniqueFd& fd, std::uint16_t port) {
  const sockaddr_in address = AddressOf(port);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

/// Binds as a server does that shares its port or not, and listens.
bool ServerCanListen(std::uint16_t port, bool share, bool reuse_address = false) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int port_option = share ? 1 : 0;
  const int address_option = reuse_address ? 1 : 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &port_option, sizeof(port_option));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &address_option, sizeof(address_option));
  return Bind(fd, port) && ::listen(fd.get(), 1) == 0;
}

/// A port whose server has closed a connection first and is gone.
std::uint16_t PortInTimeWait() {
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(server.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  EXPECT_TRUE(Bind(server, 0));
  EXPECT_EQ(::listen(server.get(), 1), 0);
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  EXPECT_EQ(::getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  UniqueFd connection(::accept(server.get(), nullptr, nullptr));
  connection.Reset();
  char byte = 0;
  EXPECT_EQ(::read(client.get(), &byte, 1), 0);
  return ntohs(address.sin_port);
}

TEST(HeldPortTest, IsHeldAgainstStrangersButOpenToASharingServer) {
  auto held = HeldPort::Bind({});
  ASSERT_TRUE(held.ok()) << held.status().ToString();
  EXPECT_NE(held->port(), 0);
  EXPECT_FALSE(ServerCanListen(held->port(), /*share=*/false));
  EXPECT_TRUE(ServerCanListen(held->port(), /*share=*/true));
}

TEST(HeldPortTest, TwoHoldersNeverShare) {
  auto first = HeldPort::Bind({});
  ASSERT_TRUE(first.ok());
  auto second = HeldPort::Bind({first->port(), first->port()});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(second.status().ToString(), HasSubstr(std::to_string(first->port())));
}

TEST(HeldPortTest, ARangeSkipsWhatIsTaken) {
  auto taken = HeldPort::Bind({});
  ASSERT_TRUE(taken.ok());
  if (taken->port() > 65500) GTEST_SKIP() << "no room for a range above the port";
  auto next = HeldPort::Bind({taken->port(), static_cast<std::uint16_t>(taken->port() + 30)});
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_GT(next->port(), taken->port());
}

TEST(HeldPortTest, TakesAPortInTimeWaitForItselfOnly) {
  const std::uint16_t port = PortInTimeWait();
  EXPECT_FALSE(ServerCanListen(port, /*share=*/false)) << "nothing is in TIME_WAIT";
  {
    auto held = HeldPort::Bind({port, port});
    ASSERT_TRUE(held.ok()) << held.status().ToString();
    EXPECT_EQ(held->port(), port);
    EXPECT_FALSE(HeldPort::Bind({port, port}).ok());
    EXPECT_FALSE(ServerCanListen(port, /*share=*/false));
    EXPECT_FALSE(ServerCanListen(port, /*share=*/false, /*reuse_address=*/true));
    EXPECT_TRUE(ServerCanListen(port, /*share=*/true, /*reuse_address=*/true));
  }
  EXPECT_TRUE(HeldPort::Bind({port, port}).ok());
}

/// Binds and listens as a server of IPv6 does that shares its port or not.
bool ServerOfIpv6CanListen(std::uint16_t port, bool share) {
  const UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int port_option = share ? 1 : 0;
  ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &port_option, sizeof(port_option));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  address.sin6_port = htons(port);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
         ::listen(fd.get(), 1) == 0;
}

bool ConnectsTo(const char* host, std::uint16_t port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = AddressOf(port);
  EXPECT_EQ(::inet_pton(AF_INET, host, &address.sin_addr), 1);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

bool AcceptsOverIpv6(std::uint16_t port) {
  const UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  address.sin6_port = htons(port);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// The process that inherits the port takes connections of both kinds, where the host has both.
TEST(HeldPortTest, IsHeldForBothKindsOfAddresses) {
  const bool has_ipv6 = ServerOfIpv6CanListen(0, /*share=*/false);
  auto held = HeldPort::Bind({});
  ASSERT_TRUE(held.ok()) << held.status().ToString();
  EXPECT_FALSE(ServerOfIpv6CanListen(held->port(), /*share=*/false));
  EXPECT_EQ(ServerOfIpv6CanListen(held->port(), /*share=*/true), has_ipv6);
  ASSERT_EQ(::listen(held->fd(), 1), 0);
  EXPECT_EQ(AcceptsOverIpv6(held->port()), has_ipv6);
  EXPECT_TRUE(ConnectsTo("127.0.0.1", held->port()));
}

TEST(HeldPortTest, OneAddressLeavesTheOthersOfTheHostAlone) {
  auto held = HeldPort::Bind({}, "127.0.0.1");
  ASSERT_TRUE(held.ok()) << held.status().ToString();
  const auto range = PortRange{held->port(), held->port()};
  EXPECT_FALSE(HeldPort::Bind(range, "127.0.0.1").ok());
  EXPECT_FALSE(HeldPort::Bind(range).ok());
  EXPECT_TRUE(HeldPort::Bind(range, "127.0.0.2").ok());
  ASSERT_EQ(::listen(held->fd(), 1), 0);
  EXPECT_TRUE(ConnectsTo("127.0.0.1", held->port()));
  EXPECT_FALSE(ConnectsTo("127.0.0.2", held->port()));
}

TEST(HeldPortTest, AnAddressOfAnotherHostIsAnError) {
  const auto held = HeldPort::Bind({}, "192.0.2.1");  // of RFC 5737: nobody has it
  ASSERT_FALSE(held.ok());
  EXPECT_EQ(held.status().code().value(), EADDRNOTAVAIL) << held.status().ToString();
}

TEST(HeldPortTest, IsFreeAgainAfterwards) {
  std::uint16_t port = 0;
  {
    auto held = HeldPort::Bind({});
    ASSERT_TRUE(held.ok());
    port = held->port();
  }
  EXPECT_TRUE(ServerCanListen(port, /*share=*/false));
}

}  // namespace
}  // namespace tfos::control
