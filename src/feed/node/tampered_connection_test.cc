// An active attacker between a feeder and a node on TLS: he changes, cuts, repeats and leads astray
// what they say. The node takes nothing that the feeder did not send, and each end is told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/logging.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/node/feed_server.h"
#include "net/handshake/messages.h"
#include "net/poll.h"
#include "net/socket.h"
#include "testing/middle_man.h"
#include "testing/send_all.h"
#include "testing/tampering.h"

namespace tfos::feed {
namespace {

using ::testing::HasSubstr;
using tfos::testing::MiddleMan;
using Direction = MiddleMan::Direction;
using namespace std::chrono_literals;

constexpr auto kLong = 60s;
constexpr std::string_view kRows = "rows that the feeder has sent";

class TamperedConnectionTest : public ::testing::Test {
 protected:
  std::unique_ptr<FeedServer> Start(std::uint32_t node_id,
                                    net::Encryption encryption = net::Encryption::kAlways) {
    Result<std::unique_ptr<FeedServer>> server =
        FeedServer::Start({.node_id = node_id,
                           .key = key_,
                           .encryption = encryption,
                           .cluster_id = "c1",
                           .bind_address = "127.0.0.1",
                           .memory_budget_bytes = 256 << 10,
                           .region_bytes = 64 << 10});
    EXPECT_TRUE(server.ok()) << server.status().DebugString();
    return std::move(server).value();
  }

  /// Feeds a chunk through `port`, as the partition's next attempt.
  Status Feed(std::uint16_t port, net::Encryption encryption = net::Encryption::kAlways) {
    TFOS_ASSIGN_OR_RETURN(
        const std::unique_ptr<FeedClient> client,
        FeedClient::Connect({.host = "127.0.0.1", .port = port, .node_id = 3}, key_,
                            {.progress_timeout = kLong, .encryption = encryption, .handshakes = 1},
                            Deadline::After(kLong)));
    TFOS_RETURN_IF_ERROR(client->Open({.attempt = ++attempt_}).status());
    TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, client->Reserve(kRows.size()));
    std::memcpy(room.data(), kRows.data(), kRows.size());
    TFOS_RETURN_IF_ERROR(client->Commit(kRows.size(), {0, 1}));
    return client->Finish().status();
  }

  /// Takes what the node has accepted: every chunk must be the feeder's.
  static std::size_t TakeChunks(FeedServer& server) {
    std::size_t chunks = 0;
    while (true) {
      const Result<Next> next = server.Next("input", {.deadline = Deadline::After(0s)});
      if (!next.ok()) {
        EXPECT_EQ(next.status().kind(), ErrorKind::kRetryLater);
        return chunks;
      }
      const auto& loan = std::get<ChunkLoan>(*next);
      EXPECT_EQ(
          std::string_view(reinterpret_cast<const char*>(loan.bytes().data()), loan.bytes().size()),
          kRows);
      ++chunks;
    }
  }

  /// It counts a stranger right after it has hung up.
  static bool Refuses(const FeedServer& server) {
    const Deadline deadline = Deadline::After(kLong);
    while (server.counters().refused_connections == 0 && !deadline.passed()) {
      std::this_thread::yield();
    }
    return server.counters().refused_connections == 1;
  }

  /// How much goes in either direction when nobody meddles.
  void Listen(const FeedServer& server) {
    const MiddleMan middle_man(server.endpoint().port, [](auto...) { return true; });
    const Status fed = Feed(middle_man.port());
    ASSERT_TRUE(fed.ok()) << fed.DebugString();
    for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
      said_[static_cast<int>(direction)] = middle_man.heard(direction);
    }
  }

  const Secret key_ = *Secret::FromHex(std::string(64, 'a'));
  std::uint64_t attempt_ = 0;
  std::string said_[2];
};

TEST_F(TamperedConnectionTest, AListenerHearsNoRows) {
  const auto server = Start(3);
  Listen(*server);
  EXPECT_EQ(TakeChunks(*server), 1u);
  for (const std::string& said : said_) {
    EXPECT_THAT(said, ::testing::Not(HasSubstr("rows that")));
    EXPECT_THAT(said, ::testing::Not(HasSubstr("TFF1")));
  }
}

TEST_F(TamperedConnectionTest, NoFlippedBitGetsThrough) {
  const auto server = Start(3);
  Listen(*server);
  TakeChunks(*server);
  for (const Direction where : {Direction::kToServer, Direction::kToClient}) {
    const std::size_t bytes = said_[static_cast<int>(where)].size();
    for (std::uint64_t flipped = 0; flipped < bytes; flipped += 3) {
      const MiddleMan middle_man(
          server->endpoint().port, [&](Direction direction, std::uint64_t at, std::string& said) {
            if (direction != where || flipped < at || flipped - at >= said.size()) return true;
            said[flipped - at] = static_cast<char>(said[flipped - at] ^ (1 << (flipped % 8)));
            return false;  // What is awaited if this was a length never comes.
          });
      const Status fed = Feed(middle_man.port());
      EXPECT_FALSE(fed.ok()) << "byte " << flipped << " of " << bytes;
      // What was whole before the flip may have been accepted.
      TakeChunks(*server);
    }
  }
  EXPECT_TRUE(Feed(server->endpoint().port).ok()) << "others are served";
  EXPECT_EQ(TakeChunks(*server), 1u);
}

TEST_F(TamperedConnectionTest, NoRecordIsRepeatedLeftOutOrExchanged) {
  const auto server = Start(3);
  const auto overheard = tfos::testing::Overhear(
      server->endpoint().port, [&](std::uint16_t port) { EXPECT_TRUE(Feed(port).ok()); });
  EXPECT_EQ(TakeChunks(*server), 1u);
  for (const auto& tampering : tfos::testing::Tamperings(overheard, 1)) {
    {
      const MiddleMan middle_man(server->endpoint().port, tampering.rule);
      EXPECT_FALSE(Feed(middle_man.port()).ok()) << tampering.what;
    }
    EXPECT_LE(TakeChunks(*server), 1u) << tampering.what;
  }
  EXPECT_TRUE(Feed(server->endpoint().port).ok()) << "others are served";
}

std::size_t Count(std::string_view text, std::string_view pattern) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(pattern, at)) != std::string_view::npos; ++at) ++count;
  return count;
}

// What the user reads.
TEST_F(TamperedConnectionTest, TheFeederSaysThatSomethingChangesBytes) {
  const auto server = Start(3);
  const auto overheard = tfos::testing::Overhear(
      server->endpoint().port, [&](std::uint16_t port) { EXPECT_TRUE(Feed(port).ok()); });
  TakeChunks(*server);
  const MiddleMan middle_man(server->endpoint().port,
                             tfos::testing::ChangeTheLast(overheard, Direction::kToClient));
  const Status fed = Feed(middle_man.port());
  ASSERT_FALSE(fed.ok());
  EXPECT_EQ(fed.kind(), ErrorKind::kReconnect) << "Spark feeds the partition again";
  EXPECT_THAT(fed.ToString(),
              HasSubstr("data from node 3 on host 127.0.0.1 was altered in transit"));
}

TEST_F(TamperedConnectionTest, TheNodeSaysOnceThatSomethingChangesBytes) {
  SetUpLogging("tampered connection test", "INFO");
  const auto server = Start(3);
  const auto overheard = tfos::testing::Overhear(
      server->endpoint().port, [&](std::uint16_t port) { EXPECT_TRUE(Feed(port).ok()); });
  TakeChunks(*server);
  std::vector<std::size_t> records;
  for (const auto& message : overheard) {
    if (message.direction == Direction::kToServer && message.encrypted()) {
      records.push_back(message.number);
    }
  }
  ASSERT_GE(records.size(), 3U) << "of the handshake, of OPEN, and of the rows with their end";
  records.erase(records.begin());  // What a stranger does to the handshake is in shake_hands_test.
  for (const std::size_t record : records) {
    ::testing::internal::CaptureStderr();
    {
      const MiddleMan middle_man(
          server->endpoint().port,
          tfos::testing::OnMessages([&](tfos::testing::OverheardMessage message) {
            if (message.direction == Direction::kToServer && message.number == record) {
              message.bytes.back() = static_cast<char>(message.bytes.back() ^ 1);
            }
            return tfos::testing::PassedOn{std::move(message.bytes)};
          }));
      EXPECT_FALSE(Feed(middle_man.port()).ok()) << record;
    }
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(Count(log, "closing the connection of 127.0.0.1"), 1U) << log;
    EXPECT_EQ(Count(log, "data was altered in transit"), 1U) << log;
    // Before the last record, rows may have come whole.
    EXPECT_LE(TakeChunks(*server), record == records.back() ? 1U : 0U) << record;
  }
}

TEST_F(TamperedConnectionTest, NoCutIsTakenForAnEnd) {
  const auto server = Start(3);
  Listen(*server);
  TakeChunks(*server);
  const std::size_t bytes = said_[static_cast<int>(Direction::kToServer)].size();
  for (std::uint64_t cut = 0; cut < bytes; cut += 5) {
    const MiddleMan middle_man(server->endpoint().port,
                               [&](Direction direction, std::uint64_t at, std::string& said) {
                                 if (direction != Direction::kToServer || cut >= at + said.size())
                                   return true;
                                 said.resize(cut - at);
                                 return false;
                               });
    const Status fed = Feed(middle_man.port());
    ASSERT_FALSE(fed.ok()) << cut;
    EXPECT_EQ(fed.kind(), ErrorKind::kReconnect) << fed.DebugString();
    TakeChunks(*server);
  }
}

TEST_F(TamperedConnectionTest, WhatWasSaidOnceIsGoodForOneConnectionOnly) {
  const auto server = Start(3);
  Listen(*server);
  EXPECT_EQ(TakeChunks(*server), 1u);
  const Wait wait{.deadline = Deadline::After(kLong)};
  const Result<UniqueFd> again = net::ConnectTcp("127.0.0.1", server->endpoint().port, wait);
  ASSERT_TRUE(again.ok());
  const std::string& said = said_[static_cast<int>(Direction::kToServer)];
  // The node may hang up while this is said.
  (void)tfos::testing::SendAll(again->get(), std::as_bytes(std::span(said)), wait).ok();
  std::byte end[4096];
  Result<net::Transfer> heard = net::Transfer{};
  do {
    ASSERT_TRUE(net::Poll(again->get(), POLLIN, wait).ok());
    heard = net::Receive(again->get(), end, nullptr);
  } while (heard.ok() && !heard->ended);
  EXPECT_TRUE(Refuses(*server));
  EXPECT_EQ(TakeChunks(*server), 0u);
}

// Both nodes have the key, so only the numbers tell them apart.
TEST_F(TamperedConnectionTest, AFeederIsNotLedToAnotherNode) {
  for (const net::Encryption encryption :
       {net::Encryption::kAlways, net::Encryption::kBetweenHosts}) {
    const auto wanted = Start(3, encryption);
    const auto other = Start(4, encryption);
    const MiddleMan middle_man(other->endpoint().port, [](auto...) { return true; });
    const Status fed = Feed(middle_man.port(), encryption);
    ASSERT_FALSE(fed.ok());
    EXPECT_EQ(fed.kind(), ErrorKind::kBadInput);
    EXPECT_THAT(fed.ToString(), HasSubstr("the other end refuses this one"));
    EXPECT_TRUE(Refuses(*other));
    EXPECT_EQ(other->counters().items, 0u);
    EXPECT_EQ(wanted->counters().items, 0u);
  }
}

// He says to either end that the other one is content with plain TCP.
TEST_F(TamperedConnectionTest, NobodyIsTalkedOutOfTls) {
  constexpr std::uint64_t kChannel = 10;  // In the first message of both.
  for (const net::Encryption of_node : {net::Encryption::kAlways, net::Encryption::kBetweenHosts}) {
    const auto server = Start(3, of_node);
    const MiddleMan middle_man(server->endpoint().port,
                               [&](Direction, std::uint64_t at, std::string& said) {
                                 if (at == 0)
                                   said[kChannel] = static_cast<char>(net::Channel::kPlain);
                                 return true;
                               });
    EXPECT_FALSE(Feed(middle_man.port()).ok());
    EXPECT_EQ(server->counters().items, 0u);
  }
}

TEST_F(TamperedConnectionTest, ANodeThatWantsTlsTakesNothingElse) {
  const auto server = Start(3);
  const Status fed = Feed(server->endpoint().port, net::Encryption::kNever);
  ASSERT_FALSE(fed.ok());
  EXPECT_EQ(fed.kind(), ErrorKind::kBadInput);
  EXPECT_THAT(fed.ToString(), HasSubstr("spark.tfos.encrypt"));
  EXPECT_EQ(server->counters().items, 0u);
}

}  // namespace
}  // namespace tfos::feed
