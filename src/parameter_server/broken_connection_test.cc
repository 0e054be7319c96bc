// Links of workers that connect anew to a server that was there all the time: it goes on with what
// they push where their connections broke. What clients do of it: returning_server_test.cc.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "parameter_server/server.h"
#include "parameter_server/server_fixture.h"
#include "parameter_server/wire/protocol.h"
#include "testing/raw_client.h"

namespace tfos::parameter_server {
namespace {

/// Speaks for a link of a worker, over one connection.
class RawLink {
 public:
  RawLink(const ServerAddress& address, const Secret& key, const Open& open)
      : client_(address.port, {.protocol = kProtocol, .key = key, .encryption = address.encryption},
                {.connecting = 7, .accepting = 0}) {
    EXPECT_TRUE(client_.connected());
    client_.Send(Encode(open));
  }

  /// Ones, for these bytes.
  void Push(std::uint64_t begin, std::uint64_t end) {
    const std::vector<float> ones((end - begin) / sizeof(float), 1);
    client_.Send(
        Encode(MessageType::kPush, {.data_follow = true, .begin = begin, .bytes = end - begin}));
    client_.Send({reinterpret_cast<const char*>(ones.data()), end - begin});
  }
  void Commit(std::uint64_t number) { client_.Send(EncodeVersion(MessageType::kCommit, number)); }
  void Expect(const std::string& said) { EXPECT_EQ(client_.Read(said.size()), said); }
  void ExpectEnd() { EXPECT_EQ(client_.ReadAll(), ""); }
  void Close() { client_.Close(); }

 private:
  tfos::testing::RawClient client_;
};

TEST_P(ServerTest, ALinkThatConnectsAnewIsToldWhatTheServerHasOfIt) {
  Start(1);
  const auto given = First(0);
  const Server& server = servers_[0]->server();
  constexpr std::uint64_t kBytes = 1'200'064;  // Of the share: each variable to whole 64 bytes.
  constexpr std::uint64_t kPart = 64'000;
  Open open;
  open.link = 5;
  open.name = "worker:7 on host h";
  open.share = variables_;
  const auto anew = [&] { return RawLink(servers_[0]->address(), key_, open); };
  RawLink first = anew();
  first.Expect(Encode(Opened{}));
  first.Push(0, kPart);
  while (server.counters().bytes_combined < kPart) std::this_thread::yield();
  RawLink second = anew();  // The server has not heard of the first one's end.
  second.Expect(Encode(Opened{.combined = kPart}));
  first.ExpectEnd();
  second.Push(kPart, kBytes);
  second.Commit(1);
  second.Expect(EncodeVersion(MessageType::kCommitted, 1));
  second.Close();
  RawLink third = anew();
  third.Expect(Encode(Opened{.version = 1, .pushes = 1}));
  third.Commit(1);  // As the answer may have been lost.
  third.Expect(EncodeVersion(MessageType::kCommitted, 1));
  ASSERT_TRUE(given->Run({.pull = true}, {}).ok());
  EXPECT_EQ(Values(*given, 0), std::vector<float>(300'000, 1));
  EXPECT_EQ(Values(*given, 1), std::vector<float>(10, 1));
  EXPECT_EQ(server.counters().pushes, 1U);
  third.Push(kPart, kBytes);
  third.Expect(Encode(
      Failed{.kind = ErrorKind::kBadInput, .text = "a push that does not go on where it was"}));
}

TEST_P(ServerTest, WhoConnectsAnewWaitsForSlowerOnesAsBefore) {
  Start(1);
  const auto given = First(0);
  Open open;
  open.link = 5;
  open.staleness = 0;
  open.name = "fast";
  open.share = variables_;
  RawLink fast(servers_[0]->address(), key_, open);
  fast.Expect(Encode(Opened{}));
  open.link = 6;
  open.name = "slow";
  RawLink slow(servers_[0]->address(), key_, open);
  slow.Expect(Encode(Opened{}));
  slow.Push(0, 64);
  while (servers_[0]->server().counters().bytes_combined < 64) std::this_thread::yield();
  fast.Push(0, 64);
  fast.Commit(1);
  const std::string waiting = Encode(Waiting{.clock = 1, .other_clock = 0, .name = "slow"});
  fast.Expect(waiting);
  open.link = 5;
  open.name = "fast";
  RawLink again(servers_[0]->address(), key_, open);
  again.Expect(Encode(Opened{.version = 1, .pushes = 1}));
  again.Commit(1);
  again.Expect(waiting);
  slow.Commit(1);
  slow.Expect(EncodeVersion(MessageType::kCommitted, 2));
  again.Expect(EncodeVersion(MessageType::kCommitted, 2));
}

}  // namespace
}  // namespace tfos::parameter_server
