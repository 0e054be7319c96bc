#include "net/tls/tls_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "testing/scarce_memory.h"

namespace tfos::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Wait Long() { return {.deadline = Deadline::After(std::chrono::seconds(60))}; }

Wait Short() { return {.deadline = Deadline::After(std::chrono::milliseconds(100))}; }

Secret NewSecret() {
  auto secret = Secret::Generate();
  EXPECT_TRUE(secret.ok());
  return *secret;
}

std::pair<UniqueFd, UniqueFd> Connected() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

using Opened = Result<std::unique_ptr<TlsStream>>;

std::pair<Opened, Opened> Open(std::pair<UniqueFd, UniqueFd> ends, const Secret& connecting,
                               const Secret& accepting,
                               std::uint64_t bytes_per_key = TlsStream::kBytesPerKey,
                               const Wait& wait = Long()) {
  Opened accepted = Status(ErrorKind::kBug, "not run");
  std::thread acceptor([&] {
    accepted = TlsStream::Open(std::move(ends.second), TlsStream::Side::kAccepting, accepting, wait,
                               {.bytes_per_key = bytes_per_key});
  });
  auto connected = TlsStream::Open(std::move(ends.first), TlsStream::Side::kConnecting, connecting,
                                   wait, {.bytes_per_key = bytes_per_key});
  acceptor.join();
  return {std::move(connected), std::move(accepted)};
}

/// Sends all of `data` in heads of eight bytes and the rest, and receives as much.
std::vector<std::byte> Exchange(Stream& stream, const std::vector<std::byte>& data) {
  std::vector<std::byte> received(data.size());
  std::size_t sent = 0;
  std::size_t got = 0;
  while (sent < data.size() || got < received.size()) {
    bool blocked = true;
    if (sent < data.size()) {
      const auto rest = std::span(data).subspan(sent);
      const std::size_t head = std::min<std::size_t>(8, rest.size());
      const auto moved = stream.Send(rest.first(head), rest.subspan(head));
      if (!moved.ok()) return {};
      sent += moved->bytes;
      blocked = blocked && moved->blocked;
    }
    if (got < received.size()) {
      const auto moved = stream.Receive(std::span(received).subspan(got));
      if (!moved.ok() || moved->ended) return {};
      got += moved->bytes;
      blocked = blocked && moved->blocked;
    }
    const int events = (sent < data.size() ? POLLOUT : 0) | (got < received.size() ? POLLIN : 0);
    pollfd entry{.fd = stream.fd(), .events = static_cast<short>(events), .revents = 0};
    if (blocked) ::poll(&entry, 1, -1);
  }
  return received;
}

std::vector<std::byte> Pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) & 0xff);
  }
  return bytes;
}

TEST(TlsStreamTest, BothWaysAtATimeAndWithNewKeysInBetween) {
  for (const std::uint64_t bytes_per_key : {TlsStream::kBytesPerKey, std::uint64_t{100'000}}) {
    const Secret key = NewSecret();
    auto [one, other] = Open(Connected(), key, key, bytes_per_key);
    ASSERT_TRUE(one.ok()) << one.status().ToString();
    ASSERT_TRUE(other.ok()) << other.status().ToString();
    const auto of_one = Pattern(3'000'001, 1);
    const auto of_other = Pattern(3'000'001, 2);
    std::vector<std::byte> at_other;
    std::thread thread([&] { at_other = Exchange(**other, of_other); });
    EXPECT_EQ(Exchange(**one, of_one), of_other);
    thread.join();
    EXPECT_EQ(at_other, of_one);
  }
}

TEST(TlsStreamTest, AnotherKeyIsRefusedByBoth) {
  const auto [one, other] = Open(Connected(), NewSecret(), NewSecret());
  EXPECT_EQ(one.status().kind(), ErrorKind::kBadInput);
  EXPECT_EQ(other.status().kind(), ErrorKind::kBadInput);
}

TEST(TlsStreamTest, WhoClosesIsSeenToHaveEnded) {
  const Secret key = NewSecret();
  auto [one, other] = Open(Connected(), key, key);
  ASSERT_TRUE(one.ok() && other.ok());
  other->reset();
  std::byte byte;
  const auto got = (*one)->Receive(std::span(&byte, 1));
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_TRUE(got->ended);
}

TEST(TlsStreamTest, AnEndIsToldApartFromACut) {
  const Secret key = NewSecret();
  for (const bool says_so : {true, false}) {
    auto [one, other] = Open(Connected(), key, key);
    ASSERT_TRUE(one.ok() && other.ok());
    if (says_so) {
      EXPECT_TRUE((*other)->EndSending().ok());
    }
    other->reset();
    std::byte byte;
    const auto got = (*one)->Receive(std::span(&byte, 1));
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_TRUE(got->ended);
    EXPECT_EQ((*one)->other_end_has_ended(), says_so);
  }
}

TEST(TlsStreamTest, SilenceEndsAtTheDeadline) {
  auto [one, other] = Connected();
  const Wait wait{.deadline = Deadline::After(std::chrono::milliseconds(20))};
  const auto opened =
      TlsStream::Open(std::move(one), TlsStream::Side::kAccepting, NewSecret(), wait, {});
  EXPECT_EQ(opened.status().kind(), ErrorKind::kRetryLater);
}

/// What a connecting end says first.
std::string ClientHello(const Secret& key) {
  auto [socket, wire] = Connected();
  const auto stream = TlsStream::Begin(std::move(socket), TlsStream::Side::kConnecting, key, {});
  EXPECT_TRUE(stream.ok() && (*stream)->ShakeHands().ok());
  char bytes[4096];
  const ssize_t got = ::recv(wire.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  EXPECT_GT(got, 0);
  return {bytes, static_cast<std::size_t>(got)};
}

void Say(const UniqueFd& socket, std::string_view words) {
  EXPECT_EQ(::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(words.size()));
}

TEST(TlsStreamTest, WhoHasNotProvedTheKeyGetsLittleMemory) {
  const Secret key = NewSecret();
  const std::string hello = ClientHello(key);
  auto [socket, stranger] = Connected();
  const ScarceMemory scarce(TlsWire::kFirstBytes);
  const auto stream = TlsStream::Begin(std::move(socket), TlsStream::Side::kAccepting, key, {});
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  for (const char byte : hello.substr(0, hello.size() - 1)) {
    Say(stranger, {&byte, 1});
    const auto shaken = (*stream)->ShakeHands();
    ASSERT_TRUE(shaken.ok()) << shaken.status().ToString();
    EXPECT_EQ(*shaken, TlsStream::Progress::kReading);
  }
  Say(stranger, hello.substr(hello.size() - 1));
  EXPECT_TRUE((*stream)->ShakeHands().ok());
  char answer[1];
  EXPECT_EQ(::recv(stranger.get(), answer, sizeof(answer), MSG_DONTWAIT), 1);
}

TEST(TlsStreamTest, WhoDoesNotProveTheKeyAtOnceIsRefused) {
  const Secret key = NewSecret();
  const std::string hello = ClientHello(key);
  // A record of the head of `hello` with this many bytes.
  const auto record = [&hello](std::size_t bytes) {
    return hello.substr(0, 3) + static_cast<char>(bytes >> 8) + static_cast<char>(bytes & 0xff);
  };
  const std::string half = hello.substr(5, 100);
  const std::string more = record(half.size()) + half;
  const std::string large = record(16'000);
  const std::string data = "" + large.substr(1);
  for (const std::string& words : {more, large, data}) {
    auto [socket, stranger] = Connected();
    const auto stream = TlsStream::Begin(std::move(socket), TlsStream::Side::kAccepting, key, {});
    ASSERT_TRUE(stream.ok()) << stream.status().ToString();
    Say(stranger, words);
    EXPECT_EQ((*stream)->ShakeHands().status().kind(), ErrorKind::kBadInput);
  }
}

/// Passes bytes on between two sockets, and keeps those from the first, one of which it changes.
std::string Relay(const UniqueFd& first, const UniqueFd& second, std::optional<std::size_t> wrong) {
  std::string seen;
  while (true) {
    pollfd ends[2] = {{.fd = first.get(), .events = POLLIN, .revents = 0},
                      {.fd = second.get(), .events = POLLIN, .revents = 0}};
    ::poll(ends, 2, -1);
    for (const int i : {0, 1}) {
      if (ends[i].revents == 0) continue;
      char bytes[4096];
      const ssize_t got = ::recv(ends[i].fd, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got <= 0) return seen;
      if (i == 0) {
        if (wrong >= seen.size() && *wrong < seen.size() + static_cast<std::size_t>(got)) {
          char& byte = bytes[*wrong - seen.size()];
          byte = static_cast<char>(byte ^ 0x10);
        }
        seen.append(bytes, static_cast<std::size_t>(got));
      }
      ::send(ends[1 - i].fd, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL);
    }
  }
}

/// What is on the wire while one end sends `text`; and what the other end receives, unless it
/// fails.
std::pair<std::string, std::string> SendThroughRelay(const std::string& text,
                                                     std::optional<std::size_t> wrong) {
  auto [one_end, one_wire] = Connected();
  auto [other_end, other_wire] = Connected();
  std::string seen;
  std::thread relay([&, near = std::move(one_wire), far = std::move(other_wire)] {
    seen = Relay(near, far, wrong);
  });
  std::string arrived;
  {
    const Secret key = NewSecret();
    // A wrong length may have an end wait for bytes that never come.
    const Wait patience = wrong ? Short() : Long();
    auto [one, other] = Open({std::move(one_end), std::move(other_end)}, key, key,
                             TlsStream::kBytesPerKey, patience);
    if (one.ok() && other.ok()) {
      EXPECT_TRUE((*one)->Send(std::as_bytes(std::span(text)), {}).ok());
      one->reset();
      arrived.resize(text.size());
      Status status;
      std::size_t got = 0;
      while (status.ok() && got < arrived.size()) {
        const auto moved =
            (*other)->Receive(std::as_writable_bytes(std::span(arrived)).subspan(got));
        status = moved.status();
        if (moved.ok() && moved->ended) break;
        if (moved.ok()) got += moved->bytes;
        pollfd entry{.fd = (*other)->fd(), .events = POLLIN, .revents = 0};
        if (moved.ok() && moved->blocked) ::poll(&entry, 1, -1);
      }
      arrived.resize(got);
    }
  }
  relay.join();
  return {seen, arrived};
}

TEST(TlsStreamTest, NothingIsTakenBehindARecordThatIsMissing) {
  const Secret key = NewSecret();
  auto [one, other] = Open(Connected(), key, key);
  ASSERT_TRUE(one.ok() && other.ok());
  const std::byte message{1};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*one)->Send(std::span(&message, 1), {}).ok());
  char stolen[kRecordLineBytes];
  ASSERT_EQ(::recv((*other)->fd(), stolen, sizeof(stolen), MSG_DONTWAIT),
            static_cast<ssize_t>(sizeof(stolen)));
  for (int i = 0; i < 2; ++i) {
    std::byte got{};
    EXPECT_EQ((*other)->Receive(std::span(&got, 1)).status().kind(), ErrorKind::kBadInput);
  }
}

TEST(TlsStreamTest, WhoListensReadsNothingAndWhoMeddlesIsNoticed) {
  const std::string text = "gradients that nobody else is to see: 0123456789";
  const auto [seen, arrived] = SendThroughRelay(text, {});
  EXPECT_EQ(arrived, text);
  EXPECT_THAT(seen, Not(HasSubstr(text.substr(0, 12))));
  // The hello, the end of the handshake, and the record.
  for (std::size_t wrong = 0; wrong < seen.size(); wrong += 9) {
    EXPECT_NE(SendThroughRelay(text, wrong).second, text) << wrong;
  }
}

/// Two ends that have not shaken hands, with so small batches that they need more memory at once.
std::pair<Opened, Opened> Begun() {
  const Secret key = NewSecret();
  auto ends = Connected();
  const TlsStream::Options small{.batch_bytes = 64};
  return {TlsStream::Begin(std::move(ends.first), TlsStream::Side::kConnecting, key, small),
          TlsStream::Begin(std::move(ends.second), TlsStream::Side::kAccepting, key, small)};
}

void Shake(TlsStream& one, TlsStream& other) {
  using Progress = TlsStream::Progress;
  Progress of_one = Progress::kReading;
  Progress of_other = Progress::kReading;
  while (of_one != Progress::kDone || of_other != Progress::kDone) {
    const auto by_one = one.ShakeHands();
    const auto by_other = other.ShakeHands();
    ASSERT_TRUE(by_one.ok() && by_other.ok());
    of_one = *by_one;
    of_other = *by_other;
  }
}

TEST(ScarceMemoryTest, AStreamDoesNotBegin) {
  const ScarceMemory scarce(32);
  EXPECT_EQ(Begun().first.status().kind(), ErrorKind::kNoResources);
}

// OpenSSL writes its part there, whose frames take no exception.
TEST(ScarceMemoryTest, AHandshakeFails) {
  const auto [one, other] = Begun();
  ASSERT_TRUE(one.ok() && other.ok());
  const ScarceMemory scarce(64);
  const auto shaken = (*one)->ShakeHands();
  ASSERT_FALSE(shaken.ok());
  EXPECT_EQ(shaken.status().kind(), ErrorKind::kNoResources);
  EXPECT_THAT(shaken.status().ToString(), HasSubstr("bytes of TLS"));
}

TEST(ScarceMemoryTest, ReceivingFailsForGood) {
  const auto [one, other] = Begun();
  ASSERT_TRUE(one.ok() && other.ok());
  Shake(**one, **other);
  const auto data = Pattern(64, 1);
  const auto sent = (*other)->Send(data, {});
  ASSERT_TRUE(sent.ok()) << sent.status().ToString();
  std::vector<std::byte> room(data.size());
  {
    const ScarceMemory scarce(64);
    const auto received = (*one)->Receive(room);
    ASSERT_FALSE(received.ok());
    EXPECT_EQ(received.status().kind(), ErrorKind::kNoResources);
  }
  EXPECT_FALSE((*one)->Receive(room).ok()) << "a record is missing";
}

}  // namespace
}  // namespace tfos::net
