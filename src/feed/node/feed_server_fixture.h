#ifndef TFOS_FEED_NODE_FEED_SERVER_FIXTURE_H_
#define TFOS_FEED_NODE_FEED_SERVER_FIXTURE_H_

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "feed/feeder/client/feed_client.h"
#include "feed/node/feed_server.h"
#include "feed/wire/frame.h"
#include "feed/wire/frame_reader.h"
#include "net/handshake/handshake.h"
#include "net/poll.h"
#include "net/socket.h"
#include "net/stream.h"

// A node, what comes to its sockets, and a feeder that says whatever a test has it say.

namespace tfos::feed {

inline constexpr auto kLong = std::chrono::seconds{60};
constexpr std::uint64_t kRegionBytes = 64 * 1024;

inline std::string Chunk(std::uint64_t offset, std::uint64_t bytes, std::uint64_t items = 1) {
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

  void StartServer(std::chrono::milliseconds patience, bool pickles = true) {
    Result<std::unique_ptr<FeedServer>> server =
        FeedServer::Start({.node_id = 3,
                           .key = key_,
                           .pickles = pickles,
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

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_FEED_SERVER_FIXTURE_H_
