// What a feed server makes of strangers and of feeders that break the protocol. The suite that
// every well-behaved feeder passes is in feed_transport_test.cc.

#include "feed/node/feed_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/wire/frame.h"
#include "feed/wire/frame_reader.h"
#include "net/handshake/handshake.h"
#include "net/handshake/messages.h"
#include "net/listen.h"
#include "net/socket.h"
#include "net/stream.h"
#include "testing/send_all.h"
#include "testing/squatter.h"

namespace tfos::feed {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr auto kLong = 60s;
constexpr std::uint64_t kRegionBytes = 64 * 1024;

std::string Chunk(std::uint64_t offset, std::uint64_t bytes, std::uint64_t items = 1) {
  return Encode(ChunkMessage{.offset = offset, .bytes = bytes, .items = items});
}

/// How a feeder comes.
enum class Way { kMemory, kTcp, kTls };

constexpr Way kWays[] = {Way::kMemory, Way::kTcp, Way::kTls};

/// Speaks the protocol word by word, so that it can say what no feeder should.
class RawFeeder {
 public:
  /// A stranger.
  explicit RawFeeder(UniqueFd fd) : RawFeeder(std::make_unique<net::SocketStream>(std::move(fd))) {}
  explicit RawFeeder(std::unique_ptr<net::Stream> stream) : stream_(std::move(stream)) {
    reader_.set_limits({.data = 0, .result = 1 << 20});
  }

  /// False when the node has hung up.
  bool Say(std::string_view bytes) {
    return net::SendAll(*stream_, std::as_bytes(std::span(bytes)),
                        {.deadline = Deadline::After(kLong)})
        .ok();
  }

  /// The next message as "NAME", for an error as "ERROR text", or "hung up".
  std::string Hear() {
    for (;;) {
      const Result<FrameReader::Event> event = reader_.Next();
      if (!event.ok()) return event.status().ToString();
      switch (*event) {
        case FrameReader::Event::kMessage:
          body_.assign(reinterpret_cast<const char*>(reader_.body().data()), reader_.body().size());
          return std::string(MessageTypeName(reader_.type()));
        case FrameReader::Event::kPayloadBegin:
          body_.resize(reader_.payload_bytes());
          reader_.SetTarget(std::as_writable_bytes(std::span(body_)));
          continue;
        case FrameReader::Event::kPayloadEnd:
          return std::string(MessageTypeName(reader_.type())) + " " + body_;
        case FrameReader::Event::kNone:
          break;
      }
      // A descriptor that comes along is of no use here.
      const Result<net::Transfer> got = stream_->Receive(reader_.Space());
      if (!got.ok() || got->ended) return "hung up";
      if (got->blocked) {
        const Result<short> ready =
            net::Poll(stream_->fd(), POLLIN, {.deadline = Deadline::After(kLong)});
        if (!ready.ok() || *ready == 0) return "silence";
      } else {
        reader_.Filled(got->bytes);
      }
    }
  }

  std::span<const std::byte> body() const { return std::as_bytes(std::span(body_)); }

 private:
  std::unique_ptr<net::Stream> stream_;
  FrameReader reader_;
  std::string body_;
};

class FeedServerTest : public ::testing::Test {
 protected:
  void SetUp() override { StartServer(std::chrono::milliseconds(kLong)); }

  void StartServer(std::chrono::milliseconds patience) {
    Result<std::unique_ptr<FeedServer>> server =
        FeedServer::Start({.node_id = 3,
                           .key = key_,
                           .cluster_id = "c1",
                           .bind_address = "127.0.0.1",
                           .handshake_patience = patience,
                           .memory_budget_bytes = 4 * kRegionBytes,
                           .region_bytes = kRegionBytes});
    ASSERT_TRUE(server.ok()) << server.status().DebugString();
    server_ = std::move(*server);
  }

  UniqueFd Socket(Way way = Way::kMemory) {
    const Wait wait{.deadline = Deadline::After(kLong)};
    if (way == Way::kMemory) {
      Result<std::optional<UniqueFd>> fd = net::ConnectUnix(server_->endpoint().unix_name, wait);
      EXPECT_TRUE(fd.ok() && *fd);
      return std::move(**fd);
    }
    Result<UniqueFd> fd = net::ConnectTcp("127.0.0.1", server_->endpoint().port, wait);
    EXPECT_TRUE(fd.ok());
    return std::move(*fd);
  }

  RawFeeder Stranger(Way way = Way::kMemory) { return RawFeeder(Socket(way)); }

  Result<net::Connection> ShakeHands(Way way, const Secret& key, std::uint32_t node = 3) {
    const net::Encryption encryption =
        way == Way::kTls ? net::Encryption::kAlways : net::Encryption::kBetweenHosts;
    return net::ShakeHands(
        Socket(way), {.protocol = kFeedProtocol, .key = key, .encryption = encryption},
        {.connecting = 7, .accepting = node}, {.deadline = Deadline::After(kLong)});
  }

  RawFeeder Feeder(Way way = Way::kMemory) {
    Result<net::Connection> connection = ShakeHands(way, key_);
    EXPECT_TRUE(connection.ok()) << connection.status().DebugString();
    EXPECT_EQ(connection->channel == net::Channel::kTls, way == Way::kTls);
    return RawFeeder(std::move(connection->stream));
  }

  RawFeeder OpenFeeder(Way way = Way::kMemory, Mode mode = Mode::kTrain) {
    RawFeeder feeder = Feeder(way);
    EXPECT_TRUE(feeder.Say(Encode(SessionOptions{.mode = mode})));
    EXPECT_EQ(feeder.Hear(), "OPENED");
    return feeder;
  }

  /// Whatever it still says before.
  static bool HangsUp(int fd) {
    std::array<std::byte, 4096> space;
    while (true) {
      const Result<net::Transfer> got = net::Receive(fd, space, nullptr);
      if (!got.ok() || got->ended) return true;
      if (!got->blocked) continue;
      const Result<short> ready = net::Poll(fd, POLLIN, {.deadline = Deadline::After(kLong)});
      if (!ready.ok() || *ready == 0) return false;
    }
  }

  /// A proper feeder brings the chunk "proof".
  void FeedOneProof(std::uint32_t epoch = 0) {
    Endpoint endpoint = server_->endpoint();
    Result<std::unique_ptr<FeedClient>> client =
        FeedClient::Connect(endpoint, key_, {.progress_timeout = kLong}, Deadline::After(kLong));
    ASSERT_TRUE(client.ok()) << client.status().DebugString();
    ASSERT_TRUE((*client)
                    ->Open({.key = {.job = {99}, .epoch = epoch, .partition = next_partition_++}})
                    .ok());
    Result<std::span<std::byte>> room = (*client)->Reserve(5);
    ASSERT_TRUE(room.ok());
    std::memcpy(room->data(), "proof", 5);
    ASSERT_TRUE((*client)->Commit(5, {0, 1}).ok());
    ASSERT_TRUE((*client)->Finish().ok());
  }

  /// A proper feeder gets a chunk through, so nothing that came before did harm.
  void ExpectServing() {
    FeedOneProof();
    for (;;) {
      Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
      ASSERT_TRUE(next.ok()) << next.status().DebugString();
      const auto* loan = std::get_if<ChunkLoan>(&*next);
      if (loan != nullptr && loan->bytes().size() == 5 &&
          std::memcmp(loan->bytes().data(), "proof", 5) == 0) {
        return;
      }
    }
  }

  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
  std::unique_ptr<FeedServer> server_;
  std::uint32_t next_partition_ = 0;
};

TEST_F(FeedServerTest, SocketNamesAreNotGuessable) {
  EXPECT_TRUE(server_->endpoint().unix_name.starts_with("tfos-c1-3-"));
  EXPECT_EQ(server_->endpoint().unix_name.size(), std::strlen("tfos-c1-3-") + 32);
  EXPECT_NE(server_->endpoint().port, 0);
}

// The name is free on all hosts but the node's own, and any user can read it there.
TEST_F(FeedServerTest, ASocketThatAnotherUserHasTakenIsPassedOver) {
  for (const int backlog : {16, 0}) {
    Endpoint endpoint = server_->endpoint();
    endpoint.host = "127.0.0.1";
    endpoint.unix_name = fmt::format("tfos-squatted-{}-{}", ::getpid(), backlog);
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
  EXPECT_THAT(said, HasSubstr("others wait for their turn"));
  EXPECT_THAT(said, ::testing::Not(HasSubstr("can't accept")));
}

TEST_F(FeedServerTest, WhoWaitsHearsAtMostOnceASecondThatTheProgramConsumes) {
  ManualClock clock;
  Result<std::unique_ptr<FeedServer>> server =
      FeedServer::Start({.node_id = 3,
                         .key = key_,
                         .bind_address = "",
                         .progress_clock = &clock,
                         .memory_budget_bytes = kRegionBytes,
                         .region_bytes = kRegionBytes});
  ASSERT_TRUE(server.ok()) << server.status().DebugString();
  server_ = std::move(*server);
  RawFeeder feeding = OpenFeeder();
  RawFeeder waiting = Feeder();
  EXPECT_TRUE(waiting.Say(Encode(SessionOptions{.key = {.partition = 1}})));
  EXPECT_TRUE(feeding.Say(Chunk(0, 64) + Chunk(64, 64) + Chunk(128, 64)));
  const auto take = [&] {
    const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
    ASSERT_TRUE(next.ok()) << next.status().DebugString();
  };
  while (server_->counters().open_sessions < 2) std::this_thread::yield();
  take();
  EXPECT_EQ(waiting.Hear(), "PROGRESS");
  clock.Advance(999ms);
  take();
  server_->EndFeed();
  EXPECT_EQ(waiting.Hear(), "OPENED") << "that the feed is over; a second had not passed";
  clock.Advance(1ms);
  take();
  EXPECT_TRUE(feeding.Say(EncodeEnd(3)));
  int told = 0;
  std::string heard;
  while ((heard = feeding.Hear()) == "CREDIT" || heard == "PROGRESS") told += heard == "PROGRESS";
  EXPECT_EQ(heard, "ENDED");
  EXPECT_EQ(told, 2);
  server_.reset();  // Before the clock.
}

struct Breach {
  const char* name;
  bool local;
  std::vector<std::string> said;  ///< After OPENED.
  const char* answer;
};

/// As the name of the test says it; its bytes would say nothing.
void PrintTo(const Breach& tested, std::ostream* out) { *out << tested.name; }

class FeedServerBreachTest : public FeedServerTest, public ::testing::WithParamInterface<Breach> {};

INSTANTIATE_TEST_SUITE_P(
    Breaches, FeedServerBreachTest,
    ::testing::Values(
        Breach{"BeyondTheEnd", true, {Chunk(kRegionBytes - 64, 65)}, "not free"},
        Breach{"FarOut", true, {Chunk(~0ull - 63, 64)}, "not free"},
        Breach{"Huge", true, {Chunk(0, ~0ull)}, "not free"},
        Breach{"Empty", true, {Chunk(0, 0)}, "not free"},
        Breach{"Unaligned", true, {Chunk(8, 64)}, "not free"},
        Breach{"Overlapping", true, {Chunk(0, 128), Chunk(64, 64)}, "not free"},
        Breach{"ManyItems", true, {Chunk(0, 64, ~0ull)}, "items"},
        Breach{
            "ItemsOverflow", true, {Chunk(0, 64, 1ull << 55), Chunk(64, 64, 1ull << 56)}, "items"},
        Breach{"FarItems", true, {Encode(ChunkMessage{.bytes = 64, .first = ~0ull})}, "items from"},
        Breach{"CountAfterOpen", true, {Encode(CountMessage{})}, "a COUNT after OPEN"},
        Breach{"WrongCount", true, {Chunk(0, 64, 5), EncodeEnd(4)}, "counts 4 items, the node 5"},
        Breach{"SecondOpen", true, {Encode(SessionOptions{})}, "a second OPEN"},
        Breach{"GrowInUse", true, {Chunk(0, 64), EncodeGrow(1 << 20)}, "GROW"},
        Breach{"GrowToNothing", true, {EncodeGrow(0)}, "a chunk of 0 bytes"},
        Breach{"GrowBeyondAll", true, {EncodeGrow(~0ull)}, "the node's host has"},
        Breach{"GrowBeyondTcp", false, {EncodeGrow(1ull << 40)}, "over TCP at most"},
        Breach{"ChunkWithoutMemory", false, {Chunk(0, 64)}, "CHUNK message without shared memory"},
        Breach{"DataBesideMemory", true, {EncodeDataHead({}, 3) + "abc"}, "a DATA message"},
        Breach{"DataBeyondTheEnd", false, {EncodeDataHead({}, kRegionBytes + 1)}, "not free"},
        Breach{"EmptyData", false, {EncodeDataHead({}, 0)}, "not free"},
        Breach{"AfterEnd", true, {EncodeEnd(0) + Chunk(0, 64)}, "not open"},
        Breach{"CreditFromAFeeder",
               true,
               {Encode(CreditMessage{.chunks = 1})},
               "CREDIT message from a feeder"},
        Breach{"ResultFromAFeeder", true, {EncodeResultHead(1, 0)}, "RESULT message from a feeder"},
        Breach{"OldHello", true, {std::string("TFF1\x02\0\0\0\0\0\0\0", 12)}, "unknown message"},
        Breach{"Garbage", false, {std::string(100, 'x')}, "does not speak"}),
    [](const auto& tested) { return tested.param.name; });

TEST_P(FeedServerBreachTest, EndsOnlyThatFeedersSession) {
  const Breach& breach = GetParam();
  for (const Way way : kWays) {
    if ((way == Way::kMemory) != breach.local) continue;
    RawFeeder feeder = OpenFeeder(way);
    for (const std::string& bytes : breach.said) EXPECT_TRUE(feeder.Say(bytes));
    std::string heard = feeder.Hear();
    if (heard == "ENDED") heard = feeder.Hear();
    EXPECT_THAT(heard, ::testing::StartsWith("ERROR "));
    EXPECT_THAT(heard, HasSubstr(breach.answer));
    EXPECT_EQ(feeder.Hear(), "hung up");
    EXPECT_EQ(server_->counters().open_sessions, 0u);
  }
  ExpectServing();
}

TEST_F(FeedServerTest, AChunkBeforeOpenIsRefused) {
  RawFeeder feeder = Feeder();
  EXPECT_TRUE(feeder.Say(Chunk(0, 64)));
  EXPECT_THAT(feeder.Hear(), HasSubstr("ERROR a chunk for a partition that is not open"));
  ExpectServing();
}

TEST_F(FeedServerTest, AFeederMayLeaveInTheMiddleOfAnything) {
  const std::string data = EncodeDataHead({.items = 1}, 50'000) + std::string(50'000, 'd');
  const std::string stream = Encode(SessionOptions{}) + data + EncodeEnd(1);
  for (std::size_t cut = 0; cut < stream.size(); cut += cut < 200 ? 1 : 9'973) {
    RawFeeder feeder = Feeder(cut % 2 == 0 ? Way::kTcp : Way::kTls);
    EXPECT_TRUE(feeder.Say(std::string_view(stream).substr(0, cut)));
  }
  ExpectServing();
  const Deadline deadline = Deadline::After(kLong);
  while (server_->counters().open_sessions > 0 && !deadline.passed()) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(server_->counters().open_sessions, 0u);
}

// Every bit of a whole conversation, one at a time. Nothing may crash, nothing is handed out that
// lies outside the region (the consumer reads it all), and the next feeder is served.
TEST_F(FeedServerTest, NoBitFlipOfAFeederHarmsTheNode) {
  std::vector<std::string> consumed;
  std::thread consumer([&] {
    for (;;) {
      const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
      ASSERT_TRUE(next.ok()) << next.status().DebugString();
      if (std::holds_alternative<EndOfFeed>(*next)) return;
      if (const auto* loan = std::get_if<ChunkLoan>(&*next)) {
        consumed.emplace_back(reinterpret_cast<const char*>(loan->bytes().data()),
                              loan->bytes().size());
      }
    }
  });
  std::uint32_t partitions = 0;
  for (const bool local : {true, false}) {
    const std::string chunk =
        local ? Chunk(0, 64, 2) : EncodeDataHead({.offset = 0, .items = 2}, 3) + "abc";
    std::size_t bits = 1;  // Known with the first one.
    for (std::size_t bit = 0; bit < bits; ++bit) {
      // Each of its own: a later attempt, by a flipped bit, would overtake all that follow.
      const PartitionKey key{.job = {5}, .partition = ++partitions};
      std::string flipped = Encode(CountMessage{.key = key, .attempt = 1}) +
                            Encode(SessionOptions{.key = key, .attempt = 1}) + chunk +
                            EncodeGrow(100'000) + EncodeEnd(2);
      bits = flipped.size() * 8;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      RawFeeder feeder = Feeder(local ? Way::kMemory : Way::kTcp);
      EXPECT_TRUE(feeder.Say(flipped));
    }
    FeedOneProof();
  }
  server_->EndFeed();
  consumer.join();
  EXPECT_EQ(std::count(consumed.begin(), consumed.end(), "proof"), 2);
  EXPECT_GT(std::count(consumed.begin(), consumed.end(), "abc"), 0);
}

TEST_F(FeedServerTest, ImpossibleOptionsAreRefused) {
  const auto start = [&](FeedServerOptions options) {
    return FeedServer::Start(std::move(options)).status();
  };
  EXPECT_EQ(start({.queues = {}}).kind(), ErrorKind::kBadInput);
  EXPECT_EQ(start({.region_bytes = 0}).kind(), ErrorKind::kBadInput);
  EXPECT_EQ(start({.first_port = 2, .last_port = 1}).kind(), ErrorKind::kBadInput);
  EXPECT_FALSE(start({.bind_address = "not an address"}).ok());
  const std::uint16_t taken = server_->endpoint().port;
  const Status busy = start({.bind_address = "127.0.0.1", .first_port = taken, .last_port = taken});
  ASSERT_FALSE(busy.ok());
  EXPECT_EQ(busy.kind(), ErrorKind::kRetryLater);
}

// A mark for each epoch before it would take all memory.
TEST_F(FeedServerTest, TheEndOfAnEpochThatCannotBeMeantIsLeftOut) {
  server_->EndEpoch("input", std::numeric_limits<std::int32_t>::max());
  server_->EndEpoch("input", 0);
  server_->EndFeed();
  const Result<Next> first = server_->Next("input", {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(first.ok()) << first.status().DebugString();
  ASSERT_TRUE(std::holds_alternative<EndOfEpoch>(*first));
  EXPECT_EQ(std::get<EndOfEpoch>(*first).epoch, 0U);
  const Result<Next> second = server_->Next("input", {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(second.ok()) << second.status().DebugString();
  EXPECT_TRUE(std::holds_alternative<EndOfFeed>(*second));
}

// What came of its partitions is forgotten, so all of their rows would come again.
TEST_F(FeedServerTest, AnAttemptAtAnEpochThatHasBeenFedBringsNothing) {
  const SessionOptions session{.key = {.job = {7}, .epoch = 0}, .attempt = 4};
  const auto connect = [&] {
    auto client = FeedClient::Connect(server_->endpoint(), key_, {.progress_timeout = kLong},
                                      Deadline::After(kLong));
    EXPECT_TRUE(client.ok()) << client.status().DebugString();
    return std::move(*client);
  };
  const auto first = connect();
  ASSERT_TRUE(first->Open(session).ok());
  ASSERT_TRUE(first->Reserve(1).ok() && first->Commit(1, {0, 1}).ok() && first->Finish().ok());
  EXPECT_EQ(connect()->Count(session.key, 5)->chunks.size(), 1u);
  server_->EndEpoch("input", 0);
  EXPECT_EQ(connect()->Count(session.key, 5)->chunks.size(), 0u);
  const Result<Opened> late = connect()->Open(session);
  ASSERT_TRUE(late.ok()) << late.status().DebugString();
  EXPECT_TRUE(late->feed_over);
  EXPECT_TRUE(connect()->Open({.key = {.job = {8}, .epoch = 1}}).ok());
}

TEST_F(FeedServerTest, AnEpochEndsBehindWhatWasFed) {
  FeedOneProof();
  server_->EndEpoch("input", 0);
  FeedOneProof(1);
  server_->EndEpoch("input", 1);
  server_->EndFeed();
  std::vector<std::string> order;
  while (order.empty() || order.back() != "over") {
    const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
    ASSERT_TRUE(next.ok()) << next.status().DebugString();
    if (const auto* end = std::get_if<EndOfEpoch>(&*next)) {
      order.push_back(fmt::format("epoch {}", end->epoch));
    } else {
      order.push_back(std::holds_alternative<EndOfFeed>(*next) ? "over" : "chunk");
    }
  }
  EXPECT_THAT(order, ::testing::ElementsAre("chunk", "epoch 0", "chunk", "epoch 1", "over"));
}

TEST_F(FeedServerTest, AFeederOfALaterEpochEndsTheEarlierOnes) {
  FeedOneProof();
  const auto feed = [&](std::uint32_t epoch) {
    Result<std::unique_ptr<FeedClient>> client = FeedClient::Connect(
        server_->endpoint(), key_, {.progress_timeout = kLong}, Deadline::After(kLong));
    ASSERT_TRUE(client.ok()) << client.status().DebugString();
    ASSERT_TRUE((*client)->Open({.key = {.job = {7}, .epoch = epoch}}).ok());
  };
  feed(2);
  server_->EndEpoch("input", 0);  // Overtaken: it was heard already.
  feed(2);
  server_->EndEpoch("input", 2);
  std::vector<std::uint32_t> ended;
  while (ended.empty() || ended.back() != 2) {
    const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
    ASSERT_TRUE(next.ok()) << next.status().DebugString();
    if (const auto* end = std::get_if<EndOfEpoch>(&*next)) ended.push_back(end->epoch);
  }
  EXPECT_THAT(ended, ::testing::ElementsAre(0, 1, 2));
}

TEST_F(FeedServerTest, AnEpochThatEndsAfterTheFeedWasTerminatedIsNotHandedOut) {
  server_->EndEpoch("input", 0);
  server_->Terminate();
  server_->EndEpoch("input", 1);
  const Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(std::holds_alternative<EndOfFeed>(*next));
}

TEST_F(FeedServerTest, APrivateViewOfAChunkOutlivesItsMemory) {
  FeedOneProof();
  Result<Next> next = server_->Next("input", {.deadline = Deadline::After(kLong)});
  ASSERT_TRUE(next.ok());
  auto& loan = std::get<ChunkLoan>(*next);
  Result<PrivateView> view = loan.MapPrivately();
  ASSERT_TRUE(view.ok()) << view.status().DebugString();
  ASSERT_TRUE(view->Detach().ok());
  loan.Release();
  FeedOneProof();
  server_->Close();
  ASSERT_EQ(view->bytes().size(), 5u);
  EXPECT_EQ(std::memcmp(view->bytes().data(), "proof", 5), 0);
}

TEST_F(FeedServerTest, ClosingTwiceIsFine) {
  server_->Close();
  server_->Close();
  Result<Next> next = server_->Next("input", {});
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(std::holds_alternative<EndOfFeed>(*next));
}

TEST_F(FeedServerTest, NobodyListensAfterClose) {
  const Endpoint endpoint = server_->endpoint();
  server_->Close();
  const Status status = FeedClient::Connect(endpoint, key_, {}, Deadline::After(kLong)).status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kReconnect);
}

}  // namespace
}  // namespace tfos::feed
