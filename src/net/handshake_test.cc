#include "net/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "base/process/unique_fd.h"
#include "net/socket.h"

namespace tfos::net {
namespace {

using ::testing::HasSubstr;

constexpr Protocol kProtocol{.magic = "tfos-tst", .version = 5, .name = "tests"};

std::pair<UniqueFd, UniqueFd> Connected() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Wait Long() { return {.deadline = Deadline::After(std::chrono::seconds(60))}; }

Status Agree(Numbers /*numbers*/) { return {}; }

Secret NewSecret() {
  auto secret = Secret::Generate();
  EXPECT_TRUE(secret.ok());
  return *secret;
}

/// What both ends come to when everything that passes goes through `change`, with its place in all
/// that passes. An end that fails closes its socket.
std::pair<Result<Peer>, Result<Peer>> Meet(
    const Secret& connecting, const Secret& accepting, const Protocol& of_connecting = kProtocol,
    const std::function<void(std::size_t, char&)>& change = {}) {
  auto [connect_end, connect_wire] = Connected();
  auto [accept_end, accept_wire] = Connected();
  Result<Peer> accepted = Status(ErrorKind::kBug, "not run");
  std::thread acceptor([&, end = std::move(accept_end)]() mutable {
    accepted = Recognize(end.get(), kProtocol, accepting, Agree, Long());
    end.Reset();
  });
  std::thread wire([&, near = std::move(connect_wire), far = std::move(accept_wire)] {
    std::size_t place = 0;
    while (true) {
      pollfd ends[2] = {{.fd = near.get(), .events = POLLIN, .revents = 0},
                        {.fd = far.get(), .events = POLLIN, .revents = 0}};
      ::poll(ends, 2, -1);
      for (int i : {0, 1}) {
        if (ends[i].revents == 0) continue;
        char bytes[512];
        const ssize_t got = ::recv(ends[i].fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (got <= 0) return;
        for (ssize_t at = 0; at < got; ++at, ++place) {
          if (change) change(place, bytes[at]);
        }
        if (!SendAll(ends[1 - i].fd, std::as_bytes(std::span(bytes, std::size_t(got))), Long())
                 .ok()) {
          return;
        }
      }
    }
  });
  auto introduced = Introduce(connect_end.get(), of_connecting, connecting,
                              {.connecting = 3, .accepting = 1}, Long());
  connect_end.Reset();
  acceptor.join();
  wire.join();
  return {std::move(introduced), std::move(accepted)};
}

TEST(HandshakeTest, BothEndsHaveAKeyOfTheirOwn) {
  const Secret token = NewSecret();
  const auto [connecting, accepting] = Meet(token, token);
  ASSERT_TRUE(connecting.ok()) << connecting.status().ToString();
  ASSERT_TRUE(accepting.ok()) << accepting.status().ToString();
  EXPECT_EQ(accepting->numbers.connecting, 3);
  EXPECT_EQ(accepting->numbers.accepting, 1);
  EXPECT_EQ(connecting->key.ToHex(), accepting->key.ToHex());
  EXPECT_NE(connecting->key.ToHex(), token.ToHex());
  const auto again = Meet(token, token);
  ASSERT_TRUE(again.first.ok());
  EXPECT_NE(again.first->key.ToHex(), connecting->key.ToHex());
}

TEST(HandshakeTest, WithoutTheTokenNobodyComesIn) {
  const auto [connecting, accepting] = Meet(NewSecret(), NewSecret());
  EXPECT_FALSE(connecting.ok());
  EXPECT_THAT(accepting.status().ToString(), HasSubstr("does not know the cluster's token"));
}

TEST(HandshakeTest, AnotherVersionIsNamed) {
  const Secret token = NewSecret();
  const auto [connecting, accepting] =
      Meet(token, token, {.magic = "tfos-tst", .version = 4, .name = "tests"});
  EXPECT_THAT(connecting.status().ToString(), HasSubstr("speaks version 5"));
  EXPECT_FALSE(accepting.ok());
}

/// There is no bit in it that somebody between the two could change unnoticed.
TEST(HandshakeTest, AnyWrongBitEndsIt) {
  const Secret token = NewSecret();
  std::atomic<std::size_t> passed = 0;
  const auto count = [&](std::size_t place, char& /*byte*/) { passed = place + 1; };
  ASSERT_TRUE(Meet(token, token, kProtocol, count).first.ok());
  ASSERT_EQ(passed, 8u + 2 + 32 + 2 + 12 + 32 + 32 + 32);
  for (std::size_t bit = 0; bit < passed * 8; ++bit) {
    const auto change = [bit](std::size_t place, char& byte) {
      if (place == bit / 8) byte = static_cast<char>(byte ^ (1 << bit % 8));
    };
    const auto [connecting, accepting] = Meet(token, token, kProtocol, change);
    EXPECT_FALSE(connecting.ok() && accepting.ok()) << bit;
    EXPECT_FALSE(connecting.ok()) << bit;  // It is told last.
  }
}

}  // namespace
}  // namespace tfos::net
