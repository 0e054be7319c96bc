// What feeders and nodes make of strangers at the other end, and of many of them.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "feed/node/feed_server_fixture.h"
#include "net/handshake/messages.h"
#include "net/listen.h"
#include "net/poll.h"
#include "testing/send_all.h"
#include "testing/squatter.h"

namespace tfos::feed {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

// The name is free on all hosts but the node's own, and any user can read it there.
TEST_F(FeedServerTest, ASocketThatAnotherUserHasTakenIsPassedOver) {
  for (const int backlog : {16, 0}) {
    Endpoint endpoint = server_->endpoint();
    endpoint.host = "127.0.0.1";
    endpoint.unix_name = "tfos-squatted-" + *RandomHex(16);  // It is said once of each name.
    const tfos::testing::Squatter squatter(endpoint.unix_name, backlog);
    // With a backlog of 0 one fills it.
    const auto fills = net::ConnectUnix(endpoint.unix_name, {});
    ASSERT_TRUE(fills.ok() && fills->has_value());
    ::testing::internal::CaptureStdout();  // The log, as nobody has set it up.
    const auto client = FeedClient::Connect(endpoint, key_, {}, Deadline::After(kLong));
    const std::string log = ::testing::internal::GetCapturedStdout();
    ASSERT_TRUE(client.ok()) << client.status().ToString();
    EXPECT_NE((*client)->channel(), net::Channel::kLocal);
    EXPECT_THAT(log, HasSubstr("is passed over, and TCP taken"));
    EXPECT_THAT(log, HasSubstr(backlog != 0 ? "belongs to user 65534" : "accepted no connection"));
  }
}

// As a node of an elastic cluster hands rows on to one on its host.
TEST_F(FeedServerTest, WithoutTcpANodeThatTakesNoConnectionIsNamed) {
  const std::string name = "tfos-busy-node-" + *RandomHex(16);
  const Result<UniqueFd> listener = net::ListenUnix(name);
  ASSERT_TRUE(listener.ok());
  ASSERT_EQ(::listen(listener->get(), 0), 0);
  const auto fills = net::ConnectUnix(name, {});
  ASSERT_TRUE(fills.ok() && fills->has_value());
  const Status status =
      FeedClient::Connect({.unix_name = name, .node_id = 3}, key_, {}, Deadline::After(0s))
          .status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(status.ToString(), HasSubstr("accepted no connection within the deadline"));
}

TEST_F(FeedServerTest, AWrongKeyIsRefused) {
  const Secret wrong = *Secret::FromHex(std::string(64, 'b'));
  for (const Way way : kWays) {
    const Result<net::Connection> connection = ShakeHands(way, wrong);
    EXPECT_FALSE(connection.ok());
  }
  ExpectServing();
  EXPECT_EQ(server_->counters().refused_connections, 3u);
}

TEST_F(FeedServerTest, WhoLooksForAnotherNodeIsRefused) {
  for (const Way way : kWays) {
    const Result<net::Connection> connection = ShakeHands(way, key_, 4);
    ASSERT_FALSE(connection.ok());
    EXPECT_EQ(connection.status().kind(), ErrorKind::kBadInput);
  }
  ExpectServing();
  EXPECT_EQ(server_->counters().refused_connections, 3u);
}

TEST_F(FeedServerTest, TheClientDoesNotTryAgainWhereItIsRefused) {
  const auto connect = [&](const Endpoint& endpoint, const Secret& key) {
    return FeedClient::Connect(endpoint, key, {}, Deadline::After(kLong)).status();
  };
  Endpoint other = server_->endpoint();
  other.node_id = 4;
  for (const Status& refused :
       {connect(other, key_),
        connect(server_->endpoint(), *Secret::FromHex(std::string(64, 'b')))}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.kind(), ErrorKind::kBadInput);
    EXPECT_THAT(refused.ToString(), HasSubstr("the other end refuses this one"));
  }
  ExpectServing();
  EXPECT_EQ(server_->counters().refused_connections, 2u);
}

// A false node that knows everything but the key.
TEST_F(FeedServerTest, TheClientRefusesAFalseNode) {
  const std::string name = "tfos-false-node-" + *RandomHex(16);
  const Result<UniqueFd> listener = net::ListenUnix(name);
  ASSERT_TRUE(listener.ok());
  const int fd = listener->get();
  std::jthread node([fd] {
    const Wait wait{.deadline = Deadline::After(kLong)};
    ASSERT_TRUE(net::Poll(fd, POLLIN, wait).ok());
    const UniqueFd peer(::accept4(fd, nullptr, nullptr, SOCK_NONBLOCK));
    std::array<std::byte, net::Hello::kBytes> hello;
    ASSERT_TRUE(tfos::testing::ReceiveAll(peer.get(), hello, wait).ok());
    net::Challenge challenge{.version = kFeedProtocol.version, .least = net::Channel::kLocal};
    kFeedProtocol.magic.copy(challenge.magic.data(), challenge.magic.size());
    const std::string said = net::Encode(challenge) + std::string(sizeof(Digest), 'p');
    ASSERT_TRUE(tfos::testing::SendAll(peer.get(), std::as_bytes(std::span(said)), wait).ok());
    std::array<std::byte, 1 + sizeof(Digest)> proof;
    EXPECT_FALSE(tfos::testing::ReceiveAll(peer.get(), proof, wait).ok()) << "it hangs up";
  });
  const Status status =
      FeedClient::Connect({.unix_name = name, .node_id = 3}, key_, {}, Deadline::After(kLong))
          .status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kBadInput);
  EXPECT_THAT(status.ToString(), HasSubstr("does not know the cluster's key for this"));
}

TEST_F(FeedServerTest, GarbageIsRefused) {
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n") + std::string(60, ' '), std::string(100'000, '\0'),
        EncodeStop() + std::string(60, 's'), EncodeError("let me in") + std::string(60, 'e'),
        EncodeDataHead({}, 1'000'000) + std::string(60, 'd'), Encode(SessionOptions{})}) {
    for (const Way way : {Way::kMemory, Way::kTcp}) {
      const UniqueFd stranger = Socket(way);
      // It may hang up while this is said.
      (void)tfos::testing::SendAll(stranger.get(), std::as_bytes(std::span(garbage)),
                                   {.deadline = Deadline::After(kLong)})
          .ok();
      EXPECT_TRUE(HangsUp(stranger.get()));
    }
  }
  ExpectServing();
}

TEST_F(FeedServerTest, WhoDoesNotProveItselfInTimeIsDropped) {
  StartServer(2s);  // Enough for the feeder that comes last, on a busy machine too.
  const UniqueFd silent = Socket();
  const UniqueFd slow = Socket(Way::kTcp);
  EXPECT_TRUE(tfos::testing::SendAll(slow.get(), std::as_bytes(std::span("tfos-fee", 8)),
                                     {.deadline = Deadline::After(kLong)})
                  .ok());
  EXPECT_TRUE(HangsUp(silent.get()));
  EXPECT_TRUE(HangsUp(slow.get()));
  ExpectServing();
}

TEST_F(FeedServerTest, ManyStrangersDoNotKeepAFeederOut) {
  server_.reset();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 600, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  StartServer(std::chrono::milliseconds(kLong));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 320; ++i) strangers.push_back(Socket());
  EXPECT_TRUE(HangsUp(strangers.front().get())) << "the oldest makes room";
  std::byte space[1];
  EXPECT_TRUE(net::Receive(strangers.back().get(), space, nullptr)->blocked);
  ExpectServing();
}

TEST_F(FeedServerTest, AFloodOfStrangersKeepsNoFeederOut) {
  std::atomic<bool> over = false;
  // On both sockets, and one that comes goes on to be silent while 200 more come.
  std::thread flood([&] {
    std::deque<UniqueFd> strangers;
    for (int i = 0; !over; ++i) {
      strangers.push_back(Socket(i % 2 == 0 ? Way::kMemory : Way::kTcp));
      if (strangers.size() > 200) strangers.pop_front();
    }
  });
  for (int i = 0; i < 20; ++i) ExpectServing();
  over = true;
  flood.join();
}

// A node that was busy for a moment finds more strangers in its backlog than it has descriptors.
// Covers: descriptors exhausted / feeding
TEST_F(FeedServerTest, AFullBacklogDoesNotUseUpTheDescriptors) {
  int to_parent[2];
  int log[2];
  ASSERT_EQ(::pipe2(to_parent, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(log, O_CLOEXEC), 0);
  server_.reset();
  const pid_t node = ::fork();
  ASSERT_GE(node, 0);
  if (node == 0) {
    for (const int out : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(log[1], out);
    const rlimit few{.rlim_cur = 400, .rlim_max = 400};
    ::setrlimit(RLIMIT_NOFILE, &few);
    StartServer(std::chrono::milliseconds(kLong));
    const std::string name = server_->endpoint().unix_name;
    if (::write(to_parent[1], name.data(), name.size()) < 0) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  ::close(log[1]);
  char name[108] = {};
  ASSERT_GT(::read(to_parent[0], name, sizeof(name)), 0);
  ASSERT_EQ(::kill(node, SIGSTOP), 0);
  ASSERT_EQ(::waitpid(node, nullptr, WUNTRACED), node);
  const Wait wait{.deadline = Deadline::After(kLong)};
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 500; ++i) {
    Result<std::optional<UniqueFd>> fd = net::ConnectUnix(name, wait);
    ASSERT_TRUE(fd.ok() && *fd) << i;
    strangers.push_back(std::move(**fd));
  }
  ASSERT_EQ(::kill(node, SIGCONT), 0);
  const Result<std::unique_ptr<FeedClient>> feeder =
      FeedClient::Connect({.unix_name = name, .node_id = 3}, key_, {}, Deadline::After(kLong));
  EXPECT_TRUE(feeder.ok()) << feeder.status().DebugString();
  ::kill(node, SIGKILL);
  ::waitpid(node, nullptr, 0);
  std::string said;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(log[0], buffer, sizeof(buffer))) > 0;) {
    said.append(buffer, static_cast<std::size_t>(count));
  }
  for (const int fd : {to_parent[0], to_parent[1], log[0]}) ::close(fd);
  EXPECT_THAT(said, HasSubstr("too many connections are waiting to authenticate ("));
  EXPECT_THAT(said, ::testing::Not(HasSubstr("can't accept")));
}

}  // namespace
}  // namespace tfos::feed
