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
#include <chrono>
#include <cstring>
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
#include "net/listen.h"
#include "net/socket.h"

namespace tfos::feed {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr auto kLong = 60s;
constexpr std::uint64_t kRegionBytes = 64 * 1024;

std::string Chunk(std::uint64_t offset, std::uint64_t bytes, std::uint64_t items = 1) {
  return Encode(ChunkMessage{.offset = offset, .bytes = bytes, .items = items});
}

/// Speaks the protocol word by word, so that it can say what no feeder should.
class RawFeeder {
 public:
  explicit RawFeeder(UniqueFd fd) : fd_(std::move(fd)) {
    reader_.set_limits({.data = 0, .result = 1 << 20});
  }

  /// False when the node has hung up.
  bool Say(std::string_view bytes) {
    std::span<const std::byte> left = std::as_bytes(std::span(bytes));
    while (!left.empty()) {
      const Result<net::Transfer> sent = net::Send(fd_.get(), left, {});
      if (!sent.ok()) return false;
      left = left.subspan(sent->bytes);
      if (sent->blocked)
        (void)net::Poll(fd_.get(), POLLOUT, {.deadline = Deadline::After(kLong)}).ok();
    }
    return true;
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
      const Result<net::Transfer> got = net::Receive(fd_.get(), reader_.Space(), &passed_);
      if (!got.ok() || got->ended) return "hung up";
      if (got->blocked) {
        const Result<short> ready =
            net::Poll(fd_.get(), POLLIN, {.deadline = Deadline::After(kLong)});
        if (!ready.ok() || *ready == 0) return "silence";
      } else {
        reader_.Filled(got->bytes);
      }
    }
  }

  std::span<const std::byte> body() const { return std::as_bytes(std::span(body_)); }

  std::string Hello(const Secret& token) {
    EXPECT_EQ(Hear(), "CHALLENGE");
    const Nonce server = ParseChallenge(body())->nonce;
    const Nonce own{1, 2, 3};
    return Encode(feed::Hello{.nonce = own, .proof = FeederProof(token, server, own)});
  }

  void Authenticate(const Secret& token) {
    EXPECT_TRUE(Say(Hello(token)));
    EXPECT_EQ(Hear(), "WELCOME");
  }

 private:
  UniqueFd fd_;
  FrameReader reader_;
  UniqueFd passed_;
  std::string body_;
};

class FeedServerTest : public ::testing::Test {
 protected:
  void SetUp() override { StartServer(std::chrono::milliseconds(kLong)); }

  void StartServer(std::chrono::milliseconds authentication_timeout) {
    Result<std::unique_ptr<FeedServer>> server =
        FeedServer::Start({.node_id = 3,
                           .token = token_,
                           .cluster_id = "c1",
                           .bind_address = "127.0.0.1",
                           .authentication_timeout = authentication_timeout,
                           .memory_budget_bytes = 4 * kRegionBytes,
                           .region_bytes = kRegionBytes});
    ASSERT_TRUE(server.ok()) << server.status().DebugString();
    server_ = std::move(*server);
  }

  RawFeeder Stranger(bool local = true) {
    const Wait wait{.deadline = Deadline::After(kLong)};
    if (local) {
      Result<std::optional<UniqueFd>> fd = net::ConnectUnix(server_->endpoint().unix_name, wait);
      EXPECT_TRUE(fd.ok() && *fd);
      return RawFeeder(std::move(**fd));
    }
    Result<UniqueFd> fd = net::ConnectTcp("127.0.0.1", server_->endpoint().port, wait);
    EXPECT_TRUE(fd.ok());
    return RawFeeder(std::move(*fd));
  }

  RawFeeder Feeder(bool local = true) {
    RawFeeder feeder = Stranger(local);
    feeder.Authenticate(token_);
    return feeder;
  }

  RawFeeder OpenFeeder(bool local = true, Mode mode = Mode::kTrain) {
    RawFeeder feeder = Feeder(local);
    EXPECT_TRUE(feeder.Say(Encode(SessionOptions{.mode = mode})));
    EXPECT_EQ(feeder.Hear(), "OPENED");
    return feeder;
  }

  /// A proper feeder brings the chunk "proof".
  void FeedOneProof() {
    Endpoint endpoint = server_->endpoint();
    Result<std::unique_ptr<FeedClient>> client =
        FeedClient::Connect(endpoint, token_, {.progress_timeout = kLong}, Deadline::After(kLong));
    ASSERT_TRUE(client.ok()) << client.status().DebugString();
    ASSERT_TRUE((*client)->Open({.key = {.job = {99}, .partition = next_partition_++}}).ok());
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

  const Secret token_ = *Secret::FromHex(std::string(64, 'a'));
  std::unique_ptr<FeedServer> server_;
  std::uint32_t next_partition_ = 0;
};

TEST_F(FeedServerTest, SocketNamesAreNotGuessable) {
  EXPECT_TRUE(server_->endpoint().unix_name.starts_with("tfos-c1-3-"));
  EXPECT_EQ(server_->endpoint().unix_name.size(), std::strlen("tfos-c1-3-") + 32);
  EXPECT_NE(server_->endpoint().port, 0);
}

TEST_F(FeedServerTest, AWrongTokenIsRefused) {
  for (const bool local : {true, false}) {
    RawFeeder stranger = Stranger(local);
    const Secret wrong = *Secret::FromHex(std::string(64, 'b'));
    EXPECT_TRUE(stranger.Say(stranger.Hello(wrong)));
    EXPECT_EQ(stranger.Hear(), "hung up");
  }
  EXPECT_EQ(server_->counters().refused_connections, 2u);
  ExpectServing();
}

TEST_F(FeedServerTest, AProofIsGoodForOneConnectionOnly) {
  RawFeeder first = Stranger();
  const std::string hello = first.Hello(token_);
  RawFeeder second = Stranger();
  EXPECT_EQ(second.Hear(), "CHALLENGE");
  EXPECT_TRUE(second.Say(hello));
  EXPECT_EQ(second.Hear(), "hung up");
}

TEST_F(FeedServerTest, TheClientRefusesANodeWithAnotherTokenOrNumber) {
  const auto connect = [&](const Endpoint& endpoint, const Secret& token) {
    return FeedClient::Connect(endpoint, token, {}, Deadline::After(kLong)).status();
  };
  Endpoint other = server_->endpoint();
  other.node_id = 4;
  const Status wrong_node = connect(other, token_);
  ASSERT_FALSE(wrong_node.ok());
  EXPECT_THAT(wrong_node.ToString(), HasSubstr("node 4 was expected and node 3 answered"));
  EXPECT_FALSE(connect(server_->endpoint(), *Secret::FromHex(std::string(64, 'b'))).ok());
}

// A false node that knows everything but the token.
TEST_F(FeedServerTest, TheClientRefusesAFalseNode) {
  const std::string name = "tfos-false-node-" + *RandomHex(16);
  const Result<UniqueFd> listener = net::ListenUnix(name);
  ASSERT_TRUE(listener.ok());
  const int fd = listener->get();
  std::jthread node([fd] {
    const Wait wait{.deadline = Deadline::After(kLong)};
    ASSERT_TRUE(net::Poll(fd, POLLIN, wait).ok());
    RawFeeder peer(UniqueFd(::accept4(fd, nullptr, nullptr, SOCK_NONBLOCK)));
    EXPECT_TRUE(peer.Say(Encode(Challenge{})));
    EXPECT_EQ(peer.Hear(), "HELLO");
    EXPECT_TRUE(peer.Say(Encode(Welcome{.proof = {1, 2, 3}, .node_id = 3})));
    EXPECT_EQ(peer.Hear(), "hung up");
  });
  const Status status =
      FeedClient::Connect({.unix_name = name, .node_id = 3}, token_, {}, Deadline::After(kLong))
          .status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kBadInput);
  EXPECT_THAT(status.ToString(), HasSubstr("does not know the cluster's token"));
}

TEST_F(FeedServerTest, AnotherVersionIsRefused) {
  RawFeeder stranger = Stranger();
  std::string hello = stranger.Hello(token_);
  hello[kFrameHeaderBytes] += 1;
  EXPECT_TRUE(stranger.Say(hello));
  EXPECT_EQ(stranger.Hear(), "hung up");
}

TEST_F(FeedServerTest, GarbageIsRefused) {
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\0'), EncodeStop(),
        EncodeError("let me in"), EncodeDataHead({}, 1'000'000),
        std::string("TFF1\x02\0\0\0\xff\xff\xff\xff", 12), Encode(SessionOptions{})}) {
    for (const bool local : {true, false}) {
      RawFeeder stranger = Stranger(local);
      EXPECT_EQ(stranger.Hear(), "CHALLENGE");
      (void)stranger.Say(garbage);
      EXPECT_EQ(stranger.Hear(), "hung up");
    }
  }
  ExpectServing();
}

TEST_F(FeedServerTest, WhoDoesNotAuthenticateInTimeIsDropped) {
  StartServer(2s);  // Enough for the feeder that comes last, on a busy machine too.
  RawFeeder silent = Stranger();
  RawFeeder slow = Stranger(/*local=*/false);
  EXPECT_TRUE(slow.Say("TFF1"));
  EXPECT_EQ(silent.Hear(), "CHALLENGE");
  EXPECT_EQ(silent.Hear(), "hung up");
  EXPECT_EQ(slow.Hear(), "CHALLENGE");
  EXPECT_EQ(slow.Hear(), "hung up");
  ExpectServing();
}

TEST_F(FeedServerTest, ManyStrangersDoNotKeepAFeederOut) {
  std::vector<RawFeeder> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(Stranger());
  // Perhaps before its challenge was on its way.
  std::string heard = strangers.front().Hear();
  if (heard == "CHALLENGE") heard = strangers.front().Hear();
  EXPECT_EQ(heard, "hung up") << "the oldest makes room";
  EXPECT_EQ(strangers.back().Hear(), "CHALLENGE");
  ExpectServing();
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
  std::vector<RawFeeder> strangers;
  for (int i = 0; i < 500; ++i) {
    Result<std::optional<UniqueFd>> fd = net::ConnectUnix(name, wait);
    ASSERT_TRUE(fd.ok() && *fd) << i;
    strangers.emplace_back(std::move(**fd));
  }
  ASSERT_EQ(::kill(node, SIGCONT), 0);
  EXPECT_EQ(strangers.back().Hear(), "CHALLENGE");
  ::kill(node, SIGKILL);
  ::waitpid(node, nullptr, 0);
  std::string said;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(log[0], buffer, sizeof(buffer))) > 0;) {
    said.append(buffer, static_cast<std::size_t>(count));
  }
  for (const int fd : {to_parent[0], to_parent[1], log[0]}) ::close(fd);
  EXPECT_THAT(said, HasSubstr("too many others wait"));
  EXPECT_THAT(said, ::testing::Not(HasSubstr("can't accept")));
}

TEST_F(FeedServerTest, WhoWaitsHearsAtMostOnceASecondThatTheProgramConsumes) {
  ManualClock clock;
  Result<std::unique_ptr<FeedServer>> server =
      FeedServer::Start({.token = token_,
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
        Breach{"HelloAgain", true, {Encode(Hello{})}, "HELLO message from a feeder"},
        Breach{"Garbage", false, {std::string(100, 'x')}, "does not speak"}),
    [](const auto& tested) { return tested.param.name; });

TEST_P(FeedServerBreachTest, EndsOnlyThatFeedersSession) {
  const Breach& breach = GetParam();
  RawFeeder feeder = OpenFeeder(breach.local);
  for (const std::string& bytes : breach.said) EXPECT_TRUE(feeder.Say(bytes));
  std::string heard = feeder.Hear();
  if (heard == "ENDED") heard = feeder.Hear();
  EXPECT_THAT(heard, ::testing::StartsWith("ERROR "));
  EXPECT_THAT(heard, HasSubstr(breach.answer));
  EXPECT_EQ(feeder.Hear(), "hung up");
  EXPECT_EQ(server_->counters().open_sessions, 0u);
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
    RawFeeder feeder = Feeder(/*local=*/false);
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
  std::uint64_t attempts = 0;
  for (const bool local : {true, false}) {
    const std::string chunk =
        local ? Chunk(0, 64, 2) : EncodeDataHead({.offset = 0, .items = 2}, 3) + "abc";
    std::size_t bits = 1;  // Known with the first one.
    for (std::size_t bit = 0; bit < bits; ++bit) {
      // Each is an attempt that has not been there.
      const Attempt attempt{.id = ++attempts * 0x9E37'79B9'7F4A'7C15};
      std::string flipped = Encode(CountMessage{.key = {.job = {5}}, .attempt = attempt}) +
                            Encode(SessionOptions{.key = {.job = {5}}, .attempt = attempt}) +
                            chunk + EncodeGrow(100'000) + EncodeEnd(2);
      bits = flipped.size() * 8;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      RawFeeder feeder = Feeder(local);
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

TEST_F(FeedServerTest, AnEpochEndsBehindWhatWasFed) {
  FeedOneProof();
  server_->EndEpoch("input", 0);
  FeedOneProof();
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
        server_->endpoint(), token_, {.progress_timeout = kLong}, Deadline::After(kLong));
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
  const Status status = FeedClient::Connect(endpoint, token_, {}, Deadline::After(kLong)).status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kReconnect);
}

}  // namespace
}  // namespace tfos::feed
