#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/process/unique_fd.h"
#include "net/handshake/handshake.h"
#include "net/listen.h"
#include "net/poll.h"
#include "net/socket.h"
#include "testing/send_all.h"

namespace tfos::net {
namespace {

using ::testing::HasSubstr;

constexpr Protocol kProtocol{.magic = "tfos-tst", .version = 5, .name = "tests"};
constexpr Numbers kNumbers{.connecting = 3, .accepting = 1, .generation = 7};

using Ends = std::pair<UniqueFd, UniqueFd>;
using Met = std::pair<Result<Connection>, Result<Connection>>;

Wait Long() { return {.deadline = Deadline::After(std::chrono::seconds(60))}; }

Secret NewSecret() {
  auto secret = Secret::Generate();
  EXPECT_TRUE(secret.ok());
  return *secret;
}

Party NewParty(const Secret& key, Encryption encryption = Encryption::kBetweenHosts) {
  return {.protocol = kProtocol, .key = key, .encryption = encryption};
}

Ends OverUnix() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Ends OverTcp() {
  auto listener = ListenTcp("127.0.0.1", 0, 0);
  EXPECT_TRUE(listener.ok());
  auto connected = ConnectTcp("127.0.0.1", listener->port, Long());
  EXPECT_TRUE(connected.ok());
  EXPECT_TRUE(Poll(listener->fd.get(), POLLIN, Long()).ok());
  UniqueFd accepted(::accept4(listener->fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  EXPECT_TRUE(accepted.valid());
  return {std::move(connected).value(), std::move(accepted)};
}

Status Agree(const Numbers& /*numbers*/) { return {}; }

/// What both ends come to. An end that fails closes its socket.
Met Meet(Ends ends, const Party& connecting, const Party& accepting,
         const AcceptsNumbers& accepts = Agree) {
  Result<Connection> accepted = Status(ErrorKind::kBug, "not run");
  std::thread acceptor([&, end = std::move(ends.second)]() mutable {
    Handshake handshake = Handshake::Accepting(std::move(end), accepting, accepts);
    const Status finished = Finish(handshake, Long());
    accepted = finished.ok() ? Result<Connection>(handshake.Take()) : finished;
  });
  auto connected = ShakeHands(std::move(ends.first), connecting, kNumbers, Long());
  acceptor.join();
  return {std::move(connected), std::move(accepted)};
}

/// Passes bytes on between the two until one end closes, each through `change` with its place in
/// all that passes. Also ends when both ends are silent for a while: a length that was changed
/// makes them wait for what never comes.
void PassOn(UniqueFd near, UniqueFd far, const std::function<void(std::size_t, char&)>& change) {
  std::size_t place = 0;
  while (true) {
    pollfd ends[2] = {{.fd = near.get(), .events = POLLIN, .revents = 0},
                      {.fd = far.get(), .events = POLLIN, .revents = 0}};
    if (::poll(ends, 2, 300) == 0) return;
    for (int i : {0, 1}) {
      if (ends[i].revents == 0) continue;
      char bytes[4096];
      const ssize_t got = ::recv(ends[i].fd, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got <= 0) return;
      for (ssize_t at = 0; at < got; ++at, ++place) change(place, bytes[at]);
      const auto passed = std::as_bytes(std::span(bytes, static_cast<std::size_t>(got)));
      if (!tfos::testing::SendAll(ends[1 - i].fd, passed, Long()).ok()) return;
    }
  }
}

/// As Meet, with somebody in the middle.
Met MeetThrough(const std::function<Ends()>& connect, const Party& connecting,
                const Party& accepting, const std::function<void(std::size_t, char&)>& change) {
  Ends near = connect();
  Ends far = connect();
  std::thread middle([&, one = std::move(near.second), other = std::move(far.first)]() mutable {
    PassOn(std::move(one), std::move(other), change);
  });
  Met met = Meet({std::move(near.first), std::move(far.second)}, connecting, accepting);
  // Which ends the middle, too.
  if (met.first.ok()) met.first->stream.reset();
  if (met.second.ok()) met.second->stream.reset();
  middle.join();
  return met;
}

struct Case {
  const char* name;
  Ends (*connect)();
  Encryption encryption;
  Channel channel;
};

class ShakeHandsTest : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Channels, ShakeHandsTest,
    ::testing::Values(Case{"Unix", OverUnix, Encryption::kAlways, Channel::kLocal},
                      Case{"Plain", OverTcp, Encryption::kNever, Channel::kPlain},
                      Case{"WithinTheHost", OverTcp, Encryption::kBetweenHosts, Channel::kPlain},
                      Case{"Tls", OverTcp, Encryption::kAlways, Channel::kTls}),
    [](const auto& test) { return test.param.name; });

TEST_P(ShakeHandsTest, BothEndsAgree) {
  const Party party = NewParty(NewSecret(), GetParam().encryption);
  const auto [connecting, accepting] = Meet(GetParam().connect(), party, party);
  ASSERT_TRUE(connecting.ok()) << connecting.status().ToString();
  ASSERT_TRUE(accepting.ok()) << accepting.status().ToString();
  for (const Connection* end : {&*connecting, &*accepting}) {
    EXPECT_EQ(end->channel, GetParam().channel);
    EXPECT_EQ(end->numbers.connecting, kNumbers.connecting);
    EXPECT_EQ(end->numbers.accepting, kNumbers.accepting);
    EXPECT_EQ(end->numbers.generation, kNumbers.generation);
  }
  // Bytes go both ways.
  const std::byte sent{42};
  for (const auto& [from, to] :
       {std::pair(&*connecting, &*accepting), {&*accepting, &*connecting}}) {
    ASSERT_TRUE(SendAll(*from->stream, std::span(&sent, 1), Long()).ok());
    ASSERT_TRUE(Poll(to->stream->fd(), POLLIN, Long()).ok());
    std::byte got{};
    Result<Transfer> transfer = to->stream->Receive(std::span(&got, 1));
    ASSERT_TRUE(transfer.ok()) << transfer.status().ToString();
    EXPECT_EQ(got, sent);
  }
}

TEST_P(ShakeHandsTest, WithoutTheKeyNobodyComesIn) {
  const auto [connecting, accepting] =
      Meet(GetParam().connect(), NewParty(NewSecret(), GetParam().encryption),
           NewParty(NewSecret(), GetParam().encryption));
  EXPECT_EQ(connecting.status().kind(), ErrorKind::kBadInput) << "it need not try again";
  EXPECT_EQ(accepting.status().kind(), ErrorKind::kBadInput);
  EXPECT_THAT(accepting.status().ToString(), HasSubstr("does not know the cluster's key"));
}

TEST_P(ShakeHandsTest, AnotherVersionIsNamedAtBothEnds) {
  const Secret key = NewSecret();
  Party older = NewParty(key, GetParam().encryption);
  older.protocol.version = 4;
  const auto [connecting, accepting] =
      Meet(GetParam().connect(), older, NewParty(key, GetParam().encryption));
  EXPECT_THAT(connecting.status().ToString(), HasSubstr("speaks version 5"));
  EXPECT_THAT(accepting.status().ToString(), HasSubstr("speaks version 4"));
}

TEST_P(ShakeHandsTest, AnotherPortIsNamedAtBothEnds) {
  const Secret key = NewSecret();
  Party other = NewParty(key, GetParam().encryption);
  other.protocol.magic = "tfos-oth";
  other.protocol.name = "others";
  const auto [connecting, accepting] =
      Meet(GetParam().connect(), other, NewParty(key, GetParam().encryption));
  EXPECT_THAT(connecting.status().ToString(), HasSubstr("what listens there is not for others"));
  EXPECT_THAT(accepting.status().ToString(), HasSubstr("does not look for tests"));
}

/// One port, several protocols, each with its own key.
TEST_P(ShakeHandsTest, APortMayHaveSeveralDoors) {
  constexpr Protocol kOther{.magic = "tfos-oth", .version = 7, .name = "others"};
  Party port = NewParty(NewSecret(), GetParam().encryption);
  port.doors = {{.protocol = kOther, .key = NewSecret()}};
  const Party first = NewParty(port.key, GetParam().encryption);
  Party second = NewParty(port.doors[0].key, GetParam().encryption);
  second.protocol = kOther;
  for (const Party& party : {first, second}) {
    const auto [connecting, accepting] = Meet(GetParam().connect(), party, port);
    ASSERT_TRUE(connecting.ok()) << connecting.status().ToString();
    ASSERT_TRUE(accepting.ok()) << accepting.status().ToString();
    EXPECT_EQ(accepting->protocol.name, party.protocol.name);
    EXPECT_EQ(connecting->protocol.name, party.protocol.name);
  }
  // The key of one door does not open the other.
  second.key = port.key;
  const auto [connecting, accepting] = Meet(GetParam().connect(), second, port);
  EXPECT_FALSE(connecting.ok());
  EXPECT_THAT(accepting.status().ToString(), HasSubstr("does not know the cluster's key"));
}

TEST_P(ShakeHandsTest, NumbersThatAreNotAgreedToEndIt) {
  const Party party = NewParty(NewSecret(), GetParam().encryption);
  const auto [connecting, accepting] = Meet(GetParam().connect(), party, party, [](const Numbers&) {
    return Status(ErrorKind::kBadInput, "this is member 2");
  });
  EXPECT_EQ(connecting.status().kind(), ErrorKind::kBadInput) << "it need not try again";
  EXPECT_THAT(connecting.status().ToString(), HasSubstr("the other end refuses this one"));
  EXPECT_THAT(accepting.status().ToString(), HasSubstr("this is member 2"));
}

TEST_P(ShakeHandsTest, ARefusalSaysWhoseGenerationIsLate) {
  const Party party = NewParty(NewSecret(), GetParam().encryption);
  const std::pair<ErrorKind, std::string> refusals[] = {
      {ErrorKind::kSuperseded, "it has gone on to a later generation"},
      {ErrorKind::kRetryLater, "it has not come to this one's generation yet"},
      {ErrorKind::kBadInput, "it expects another member there"}};
  for (const auto& [kind, text] : refusals) {
    const auto [connecting, accepting] =
        Meet(GetParam().connect(), party, party, [&](const Numbers&) { return Status(kind, "x"); });
    EXPECT_EQ(connecting.status().kind(), kind);
    EXPECT_THAT(connecting.status().ToString(), HasSubstr(text));
    EXPECT_EQ(accepting.status().kind(), kind);
  }
}

/// Where the heads of TLS's records have a version, which means nothing and is ignored (RFC 8446,
/// 5.1).
std::set<std::size_t> VersionsOfRecords(std::string_view passed) {
  std::set<std::size_t> places;
  std::size_t head = Hello::kBytes + Challenge::kBytes;
  while (head + 5 <= passed.size()) {
    places.insert({head + 1, head + 2});
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(passed[head + at]); };
    head += 5 + (std::size_t{byte(3)} << 8 | byte(4));
  }
  return places;
}

/// There is no bit in it that somebody between the two could change unnoticed: neither of what the
/// two say, nor of TLS's own messages.
TEST_P(ShakeHandsTest, AnyWrongBitEndsIt) {
  const Party party = NewParty(NewSecret(), GetParam().encryption);
  std::string passed;
  const auto record = [&](std::size_t /*place*/, char& byte) { passed += byte; };
  ASSERT_TRUE(MeetThrough(GetParam().connect, party, party, record).first.ok());
  ASSERT_GE(passed.size(), Hello::kBytes + Challenge::kBytes + 2 * sizeof(Digest));
  const std::set<std::size_t> ignored =
      GetParam().channel == Channel::kTls ? VersionsOfRecords(passed) : std::set<std::size_t>();
  for (std::size_t place = 0; place < passed.size(); ++place) {
    if (ignored.contains(place)) continue;
    const auto change = [place](std::size_t at, char& byte) {
      if (at == place) byte = static_cast<char>(byte ^ (1 << place % 8));
    };
    const Met met = MeetThrough(GetParam().connect, party, party, change);
    // One end may be in before the other one has looked at the last message.
    EXPECT_FALSE(met.first.ok() && met.second.ok()) << "byte " << place;
  }
}

TEST(ChannelTest, WhatIsTooWeakIsRefusedAndNamed) {
  const Secret key = NewSecret();
  const auto [connecting, accepting] =
      Meet(OverTcp(), NewParty(key, Encryption::kNever), NewParty(key, Encryption::kAlways));
  EXPECT_THAT(connecting.status().ToString(), HasSubstr("spark.tfos.encrypt"));
  EXPECT_THAT(accepting.status().ToString(), HasSubstr("wants plain TCP, and this one TLS"));
}

/// An address may look like another host's to one end only.
TEST(ChannelTest, WhatIsStrongerIsTaken) {
  const Secret key = NewSecret();
  const auto [connecting, accepting] =
      Meet(OverTcp(), NewParty(key, Encryption::kAlways), NewParty(key, Encryption::kBetweenHosts));
  ASSERT_TRUE(connecting.ok()) << connecting.status().ToString();
  ASSERT_TRUE(accepting.ok()) << accepting.status().ToString();
  EXPECT_EQ(accepting->channel, Channel::kTls);
}

TEST(ChannelTest, SettingsAreWords) {
  for (const auto& [word, encryption] : {std::pair("true", Encryption::kAlways),
                                         {"auto", Encryption::kBetweenHosts},
                                         {"false", Encryption::kNever}}) {
    const auto read = EncryptionFromWord(word);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, encryption);
  }
  EXPECT_THAT(EncryptionFromWord("yes").status().ToString(),
              HasSubstr("spark.tfos.encrypt must be auto, true or false, not 'yes'"));
}

TEST(ChannelTest, SilenceEndsAtTheDeadline) {
  Ends ends = OverTcp();
  const Wait wait{.deadline = Deadline::After(std::chrono::milliseconds(50))};
  const auto connected = ShakeHands(std::move(ends.first), NewParty(NewSecret()), kNumbers, wait);
  EXPECT_EQ(connected.status().kind(), ErrorKind::kRetryLater);
}

}  // namespace
}  // namespace tfos::net
