#include "net/handshake/acceptor.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "net/listen.h"
#include "net/poll.h"
#include "net/socket.h"
#include "testing/send_all.h"

namespace tfos::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Protocol kProtocol{.magic = "tfos-tst", .version = 1, .name = "tests"};

Wait Long() { return {.deadline = Deadline::After(seconds(60))}; }

class AcceptorTest : public ::testing::Test {
 protected:
  AcceptorTest() { SetUpLogging("acceptor test", "INFO"); }

  void Start(Acceptor::Options options = {}, const std::string& address = "127.0.0.1") {
    options.party = party_;
    options.what = "the tests' port";
    auto acceptor = Acceptor::Create(std::move(options));
    ASSERT_TRUE(acceptor.ok()) << acceptor.status().ToString();
    acceptor_ = std::move(acceptor).value();
    auto listener = ListenTcp(address, 0, 0);
    ASSERT_TRUE(listener.ok());
    port_ = listener->port;
    ASSERT_TRUE(acceptor_->Listen(std::move(listener->fd)).ok());
  }

  /// Works until there are guests, or `until` says that it is enough.
  template <typename Until>
  std::vector<Guest> Work(const Until& until) {
    const Deadline deadline = Deadline::After(seconds(60));
    while (!deadline.passed()) {
      std::vector<Guest> guests = acceptor_->Progress();
      if (!guests.empty() || until()) return guests;
      EXPECT_TRUE(Poll(acceptor_->fd(), POLLIN, {.deadline = deadline}).ok());
    }
    ADD_FAILURE() << "nothing happened";
    return {};
  }
  std::vector<Guest> AwaitGuest() {
    return Work([] { return false; });
  }

  UniqueFd Connect() {
    auto socket = ConnectTcp("127.0.0.1", port_, Long());
    EXPECT_TRUE(socket.ok()) << socket.status().ToString();
    return std::move(socket).value();
  }

  /// As Connect, from one of the addresses that a host has for itself.
  UniqueFd ConnectFrom(const std::string& own) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    EXPECT_EQ(::inet_pton(AF_INET, own.c_str(), &address.sin_addr), 1);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      EXPECT_EQ(errno, EINPROGRESS);
    }
    return socket;
  }

  /// A member that comes in another thread.
  std::thread Member(Result<Connection>& connection) {
    return std::thread([this, &connection] {
      connection = ShakeHands(Connect(), party_, {.connecting = 1}, Long());
    });
  }

  static bool Closed(const UniqueFd& socket) {
    pollfd entry{.fd = socket.get(), .events = POLLRDHUP, .revents = 0};
    return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP)) != 0;
  }

  Party party_{.protocol = kProtocol, .key = Secret::Generate().value()};
  std::unique_ptr<Acceptor> acceptor_;
  std::uint16_t port_ = 0;
};

TEST_F(AcceptorTest, LetsMembersIn) {
  Start();
  Result<Connection> connection = Status(ErrorKind::kBug, "not run");
  std::thread member = Member(connection);
  const std::vector<Guest> guests = AwaitGuest();
  member.join();
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  ASSERT_EQ(guests.size(), 1);
  EXPECT_EQ(guests[0].connection.numbers.connecting, 1);
  EXPECT_THAT(guests[0].peer, HasSubstr("127.0.0.1 port "));
  EXPECT_EQ(acceptor_->strangers(), 0);
}

TEST_F(AcceptorTest, OnAllAddressesMembersComeByBothFamilies) {
  const bool has_ipv6 =
      std::ifstream("/proc/net/if_inet6").peek() != std::ifstream::traits_type::eof();
  for (const std::string all : {"0.0.0.0", "::"}) {
    Start({}, all);
    for (const std::string host : {"127.0.0.1", "::1"}) {
      if (host == "::1" && !has_ipv6) continue;
      Result<Connection> connection = Status(ErrorKind::kBug, "not run");
      std::thread member([&] {
        auto socket = ConnectTcp(host, port_, Long());
        connection = socket.ok() ? ShakeHands(std::move(*socket), party_, {.connecting = 1}, Long())
                                 : Result<Connection>(socket.status());
      });
      const std::vector<Guest> guests = AwaitGuest();
      member.join();
      ASSERT_TRUE(connection.ok()) << connection.status().ToString();
      ASSERT_EQ(guests.size(), 1);
      EXPECT_THAT(guests[0].peer, StartsWith(host + " port "));
      EXPECT_EQ(guests[0].connection.channel, Channel::kPlain) << "within the host";
    }
  }
}

TEST_F(AcceptorTest, SilentStrangersDelayNobody) {
  Start();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(Connect());
  Work([this] { return acceptor_->strangers() == 100; });
  Result<Connection> connection = Status(ErrorKind::kBug, "not run");
  std::thread member = Member(connection);
  EXPECT_EQ(AwaitGuest().size(), 1);
  member.join();
  EXPECT_TRUE(connection.ok());
  EXPECT_EQ(acceptor_->strangers(), 100);
}

TEST_F(AcceptorTest, OneStrangerTooManyCostsTheOldestItsPlace) {
  Start({.most_strangers = 3});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(Connect());
    Work([&] { return acceptor_->strangers() == silent.size(); });
  }
  EXPECT_FALSE(Closed(silent[0]));
  ::testing::internal::CaptureStderr();
  silent.push_back(Connect());
  Work([&] { return Closed(silent[0]); });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("too many connections are waiting to authenticate (3); it is the oldest"));
  EXPECT_EQ(acceptor_->strangers(), 3);
  EXPECT_FALSE(Closed(silent[1]));
}

TEST_F(AcceptorTest, OneAddressDoesNotKeepAnotherOneOut) {
  party_.encryption = Encryption::kAlways;
  Start({.most_strangers = 8});
  Handshake member = Handshake::Connecting(ConnectFrom("127.0.0.3"), party_, {.connecting = 1});
  std::deque<UniqueFd> flood;
  Result<Handshake::State> state = Handshake::State::kReading;
  std::vector<Guest> guests;
  // More strangers than there is room for come between any two of its messages.
  while (guests.empty()) {
    state = member.Continue();
    ASSERT_TRUE(state.ok()) << state.status().ToString();
    const std::uint64_t enough = acceptor_->refused() + 20;
    while (acceptor_->refused() < enough && guests.empty()) {
      flood.push_back(ConnectFrom("127.0.0.2"));
      if (flood.size() > 100) flood.pop_front();
      guests = acceptor_->Progress();
    }
  }
  EXPECT_EQ(guests[0].connection.channel, Channel::kTls);
  EXPECT_THAT(guests[0].peer, StartsWith("127.0.0.3 port "));
  EXPECT_TRUE(Finish(member, Long()).ok());
}

TEST_F(AcceptorTest, WhoSaysNothingInTimeHasToGo) {
  Start({.patience = milliseconds(20)});
  const UniqueFd silent = Connect();
  Work([this] { return acceptor_->strangers() == 1; });
  ::testing::internal::CaptureStderr();
  Work([this] { return acceptor_->strangers() == 0; });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("it did not authenticate within 0.02 s"));
  Work([&] { return Closed(silent); });
}

TEST_F(AcceptorTest, NonsenseEndsAtOnce) {
  Start();
  const UniqueFd stranger = Connect();
  const std::string nonsense(Hello::kBytes, 'x');
  ASSERT_TRUE(
      tfos::testing::SendAll(stranger.get(), std::as_bytes(std::span(nonsense)), Long()).ok());
  Work([&] { return Closed(stranger); });
}

TEST_F(AcceptorTest, OtherProtocolsAreHandedOn) {
  Start({.others = true});
  const UniqueFd browser = Connect();
  const std::string request = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_TRUE(
      tfos::testing::SendAll(browser.get(), std::as_bytes(std::span(request)), Long()).ok());
  std::vector<Guest> guests = AwaitGuest();
  ASSERT_EQ(guests.size(), 1);
  EXPECT_EQ(guests[0].connection.stream, nullptr);
  ASSERT_TRUE(guests[0].other.valid());
  std::string rest(request.size() - guests[0].received.size(), '\0');
  ASSERT_TRUE(tfos::testing::ReceiveAll(guests[0].other.get(),
                                        std::as_writable_bytes(std::span(rest)), Long())
                  .ok());
  EXPECT_EQ(guests[0].received + rest, request);
}

// Covers: descriptors exhausted / starting, feeding, training
TEST_F(AcceptorTest, WaitsWhereThereAreNoDescriptors) {
  Start();
  Result<Connection> connection = Status(ErrorKind::kBug, "not run");
  Result<Connection> member_there = Status(ErrorKind::kBug, "not run");
  UniqueFd there = Connect();
  Work([this] { return acceptor_->strangers() == 1; });
  UniqueFd early = Connect();  // While there are descriptors.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // All below the lowest one that is free: poll() takes no more entries than the limit allows.
  UniqueFd lowest(::dup(there.get()));
  ASSERT_TRUE(lowest.valid());
  const rlimit none{.rlim_cur = static_cast<rlim_t>(lowest.get()), .rlim_max = before.rlim_max};
  lowest.Reset();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_TRUE(acceptor_->Progress().empty());
  EXPECT_EQ(acceptor_->strangers(), 1) << "the one that is there";
  std::thread goes_on(
      [&] { member_there = ShakeHands(std::move(there), party_, {.connecting = 1}, Long()); });
  EXPECT_EQ(AwaitGuest().size(), 1);
  goes_on.join();
  EXPECT_TRUE(member_there.ok()) << member_there.status().ToString();
  EXPECT_EQ(acceptor_->strangers(), 0) << "the early one waits";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  std::thread member(
      [&] { connection = ShakeHands(std::move(early), party_, {.connecting = 1}, Long()); });
  EXPECT_EQ(AwaitGuest().size(), 1);
  member.join();
  EXPECT_TRUE(connection.ok()) << connection.status().ToString();
}

// Covers: descriptors exhausted / starting, feeding, training
TEST_F(AcceptorTest, OneAddressDoesNotKeepAnotherOneOutWhereItUsesUpTheDescriptors) {
  constexpr std::size_t kFlood = 300;
  constexpr int kDescriptors = 100;
  Start();
  std::vector<UniqueFd> flood;
  for (std::size_t i = 0; i < kFlood; ++i) flood.push_back(ConnectFrom("127.0.0.2"));
  Handshake member = Handshake::Connecting(ConnectFrom("127.0.0.3"), party_, {.connecting = 1});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const UniqueFd lowest(::dup(flood.back().get()));
  ASSERT_TRUE(lowest.valid());
  const rlimit few{.rlim_cur = static_cast<rlim_t>(lowest.get()) + kDescriptors,
                   .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Guest> guests;
  // What is dropped of the flood comes again at once.
  for (std::size_t next = 0; guests.empty() && acceptor_->pauses() == 0;
       next = (next + 1) % kFlood) {
    guests = acceptor_->Progress();
    if (!member.Continue().ok()) break;
    if (Closed(flood[next])) {
      flood[next].Reset();
      flood[next] = ConnectFrom("127.0.0.2");
    }
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(guests.size(), 1) << "pauses: " << acceptor_->pauses();
  EXPECT_THAT(guests[0].peer, StartsWith("127.0.0.3 port "));
  EXPECT_TRUE(Finish(member, Long()).ok());
}

TEST_F(AcceptorTest, CloseEndsStrangersAndListeners) {
  Start();
  const UniqueFd stranger = Connect();
  Work([this] { return acceptor_->strangers() == 1; });
  acceptor_->Close();
  EXPECT_EQ(acceptor_->strangers(), 0);
  EXPECT_TRUE(acceptor_->Progress().empty());
  EXPECT_FALSE(ConnectTcp("127.0.0.1", port_, Long()).ok());
}

}  // namespace
}  // namespace tfos::net
