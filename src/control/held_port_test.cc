#include "control/held_port.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

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

/// Binds as a server does that shares its port, and listens.
bool ServerCanListen(std::uint16_t port, bool share) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = share ? 1 : 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
         ::listen(fd.get(), 1) == 0;
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
