// What a feed server makes of feeders that break the protocol.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "feed/node/feed_server_fixture.h"

namespace tfos::feed {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

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

TEST_F(FeedServerTest, ARefusedPickleKeepsNoMemory) {
  StartServer(std::chrono::milliseconds(kLong), /*pickles=*/false);
  for (const Way way : kWays) {
    RawFeeder feeder = OpenFeeder(way);
    // Too short to say that it has columns.
    EXPECT_TRUE(feeder.Say(way == Way::kMemory ? Chunk(0, 3) : EncodeDataHead({}, 3) + "abc"));
    std::string heard = feeder.Hear();
    if (heard == "CREDIT") heard = feeder.Hear();
    EXPECT_THAT(heard, HasSubstr("ERROR spark.tfos.feed.pickle=false"));
    EXPECT_EQ(feeder.Hear(), "hung up");
    EXPECT_EQ(server_->counters().region_bytes_in_use, 0u);
  }
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

}  // namespace
}  // namespace tfos::feed
