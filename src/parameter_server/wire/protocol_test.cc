#include "parameter_server/wire/protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tfos::parameter_server {
namespace {

std::span<const std::byte> BodyOf(const std::string& message) {
  return std::as_bytes(std::span(message)).subspan(kHeaderBytes);
}

Header HeaderOf(const std::string& message) {
  const auto header = ParseHeader(std::as_bytes(std::span(message)).first<kHeaderBytes>());
  EXPECT_TRUE(header.ok()) << header.status().ToString();
  return *header;
}

Open SomeOpen() {
  return {.rule = {.combiner = Combiner::kAdam, .workers = 3, .learning_rate = 0.5, .beta_1 = 0.9},
          .starts = true,
          .gives = 1234567890123,
          .link = 42,
          .staleness = 4,
          .region_bytes = 128,
          .name = "worker:1 on host b",
          .share = {{DType::kFloat32, 10}, {DType::kFloat16, 3, true}}};
}

TEST(ProtocolTest, MessagesComeBackAsTheyWere) {
  const std::string open = Encode(SomeOpen());
  EXPECT_EQ(HeaderOf(open).type, MessageType::kOpen);
  EXPECT_EQ(HeaderOf(open).bytes, open.size() - kHeaderBytes);
  const auto parsed = ParseOpen(BodyOf(open));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->rule, SomeOpen().rule);
  EXPECT_TRUE(parsed->starts);
  EXPECT_EQ(parsed->gives, 1234567890123U);
  EXPECT_EQ(parsed->link, 42U);
  EXPECT_EQ(parsed->staleness, 4U);
  EXPECT_EQ(parsed->region_bytes, 128U);
  EXPECT_EQ(parsed->name, "worker:1 on host b");
  EXPECT_EQ(parsed->share, SomeOpen().share);

  const auto opened =
      ParseOpened(BodyOf(Encode(Opened{.version = 5, .pushes = 3, .combined = 128})));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->version, 5U);
  EXPECT_EQ(opened->pushes, 3U);
  EXPECT_EQ(opened->combined, 128U);
  const auto range = ParseRange(BodyOf(
      Encode(MessageType::kPush, {.part = 1, .data_follow = true, .begin = 64, .bytes = 9})));
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->part, 1);
  EXPECT_TRUE(range->data_follow);
  EXPECT_EQ(range->begin, 64U);
  EXPECT_EQ(range->bytes, 9U);
  EXPECT_EQ(*ParseVersion(BodyOf(EncodeVersion(MessageType::kCommitted, 1234567890123))),
            1234567890123U);
  const auto waiting =
      ParseWaiting(BodyOf(Encode(Waiting{.clock = 9, .other_clock = 4, .name = "worker:0"})));
  ASSERT_TRUE(waiting.ok());
  EXPECT_EQ(waiting->other_clock, 4U);
  EXPECT_EQ(waiting->name, "worker:0");
  const auto failed =
      ParseFailed(BodyOf(Encode(Failed{.kind = ErrorKind::kBadInput, .text = "no"})));
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ(failed->kind, ErrorKind::kBadInput);
  EXPECT_EQ(failed->text, "no");
}

TEST(ProtocolTest, LongTextsAreCut) {
  const auto failed = ParseFailed(BodyOf(Encode(Failed{.text = std::string(100'000, 'x')})));
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ(failed->text.size(), kLongestText);
}

TEST(ProtocolTest, DataAndMessagesHaveLimits) {
  std::string header = EncodeVersion(MessageType::kStart, 0).substr(0, kHeaderBytes);
  header[6] = 0x7f;
  EXPECT_FALSE(ParseHeader(std::as_bytes(std::span(header)).first<kHeaderBytes>()).ok());
  EXPECT_FALSE(ParseRange(BodyOf(Encode(MessageType::kPush,
                                        {.data_follow = true, .bytes = kMostDataBytes + 1})))
                   .ok());
}

/// Calls `check` with each body that differs from that of `message` in one bit, and with each that
/// is cut.
template <typename Parse>
void Damage(const std::string& message, Parse parse) {
  const auto body = BodyOf(message);
  for (std::size_t bit = 0; bit < body.size() * 8; ++bit) {
    std::vector<std::byte> damaged(body.begin(), body.end());
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    parse(damaged);
  }
  for (std::size_t size = 0; size < body.size(); ++size) {
    EXPECT_FALSE(parse(std::vector<std::byte>(body.begin(), body.begin() + size))) << size;
  }
}

TEST(ProtocolTest, DamagedMessagesAreRefusedOrStaySane) {
  Damage(Encode(SomeOpen()), [](std::vector<std::byte> body) {
    const auto open = ParseOpen(body);
    if (!open.ok()) return false;
    // What is accepted is written the same way again.
    EXPECT_TRUE(std::ranges::equal(BodyOf(Encode(*open)), body));
    return true;
  });
  Damage(Encode(MessageType::kWrite, {.part = 1, .data_follow = true, .begin = 64, .bytes = 64}),
         [](std::vector<std::byte> body) {
           const auto range = ParseRange(body);
           if (!range.ok()) return false;
           EXPECT_TRUE(std::ranges::equal(BodyOf(Encode(MessageType::kWrite, *range)), body));
           EXPECT_TRUE(!range->data_follow || range->bytes <= kMostDataBytes);
           return true;
         });
  Damage(Encode(Opened{.version = 5, .combined = 128}), [](std::vector<std::byte> body) {
    const auto opened = ParseOpened(body);
    if (!opened.ok()) return false;
    EXPECT_TRUE(std::ranges::equal(BodyOf(Encode(*opened)), body));
    EXPECT_EQ(opened->combined % kAlignment, 0U);
    return true;
  });
  Damage(Encode(Waiting{.clock = 1, .other_clock = 2, .name = "w"}),
         [](std::vector<std::byte> body) { return ParseWaiting(body).ok(); });
  Damage(Encode(Failed{.text = "why"}),
         [](std::vector<std::byte> body) { return ParseFailed(body).ok(); });
  Damage(EncodeVersion(MessageType::kStart, 5),
         [](std::vector<std::byte> body) { return ParseVersion(body).ok(); });
}

}  // namespace
}  // namespace tfos::parameter_server
