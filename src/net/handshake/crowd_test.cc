#include "net/handshake/crowd.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstring>
#include <string>

namespace tfos::net {
namespace {

/// Of an address in words; "" is a Unix socket.
Origin OriginOf(const std::string& text) {
  sockaddr_storage storage{};
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(80), .sin_addr = {}, .sin_zero = {}};
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    std::memcpy(&storage, &v4, sizeof(v4));
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    std::memcpy(&storage, &v6, sizeof(v6));
  } else {
    storage.ss_family = AF_UNIX;
  }
  return Origin::Of(storage);
}

TEST(OriginTest, IsAnAddressOfIPv4OrANetworkOfIPv6AndItsHost) {
  EXPECT_EQ(OriginOf("10.0.0.1"), OriginOf("::ffff:10.0.0.1"));
  EXPECT_NE(OriginOf("10.0.0.1").network, OriginOf("10.0.0.2").network);
  EXPECT_EQ(OriginOf("2001:db8:0:1::1").network, OriginOf("2001:db8:0:1:ffff::2").network);
  EXPECT_NE(OriginOf("2001:db8:0:1::1"), OriginOf("2001:db8:0:1::2"));
  EXPECT_NE(OriginOf("2001:db8:0:1::1").network, OriginOf("2001:db8:0:2::1").network);
  EXPECT_EQ(OriginOf(""), OriginOf(""));
  EXPECT_NE(OriginOf(""), OriginOf("0.0.0.0"));
  EXPECT_NE(OriginOf("").network, OriginOf("::1").network);
}

TEST(CrowdTest, AmongEqualsTheOldestGoesFirst) {
  Crowd crowd;
  crowd.Add(OriginOf("10.0.0.2"), 1);
  crowd.Add(OriginOf("10.0.0.1"), 2);
  crowd.Add(OriginOf(""), 3);
  EXPECT_EQ(crowd.FirstToGo(), 1);
  crowd.Remove(OriginOf("10.0.0.2"), 1);
  EXPECT_EQ(crowd.FirstToGo(), 2);
}

TEST(CrowdTest, CountsThoseOfTheBusiestNetwork) {
  Crowd crowd;
  EXPECT_EQ(crowd.of_busiest(), 0);
  crowd.Add(OriginOf("10.0.0.1"), 1);
  crowd.Add(OriginOf("2001:db8:0:1::1"), 2);
  crowd.Add(OriginOf("2001:db8:0:1::2"), 3);
  EXPECT_EQ(crowd.of_busiest(), 2);
}

TEST(CrowdTest, TheOldestOfTheLargestGroupGoesFirst) {
  Crowd crowd;
  crowd.Add(OriginOf("10.0.0.1"), 1);
  for (const std::uint64_t number : {2, 3, 4}) crowd.Add(OriginOf("10.0.0.2"), number);
  EXPECT_EQ(crowd.FirstToGo(), 2);
  crowd.Remove(OriginOf("10.0.0.2"), 2);
  EXPECT_EQ(crowd.FirstToGo(), 3);
  crowd.Remove(OriginOf("10.0.0.2"), 3);
  EXPECT_EQ(crowd.FirstToGo(), 1) << "one of each";
}

TEST(CrowdTest, OfANetworkOfIPv6TheHostWithMostGoesFirst) {
  Crowd crowd;
  crowd.Add(OriginOf("2001:db8::1"), 1);
  crowd.Add(OriginOf("10.0.0.1"), 2);
  crowd.Add(OriginOf("10.0.0.1"), 3);
  crowd.Add(OriginOf("2001:db8::2"), 4);
  crowd.Add(OriginOf("2001:db8::2"), 5);
  EXPECT_EQ(crowd.FirstToGo(), 4) << "the network has three, and this host most of them";
  crowd.Remove(OriginOf("2001:db8::2"), 4);
  EXPECT_EQ(crowd.FirstToGo(), 1) << "two of each network";
}

}  // namespace
}  // namespace tfos::net
