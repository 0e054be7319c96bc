#include "feed/wire/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "feed/wire/frame_reader.h"

namespace tfos::feed {
namespace {

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::span<const std::byte> Body(const std::string& frame) {
  return Bytes(frame).subspan(kFrameHeaderBytes);
}

struct Message {
  MessageType type;
  std::string body;  ///< The fixed part.
  std::string payload;
  bool operator==(const Message&) const = default;
};

constexpr FrameReader::Limits kGenerous{.data = 1 << 20, .result = 1 << 20};

/// Reads `stream`, `step` bytes at a time.
Result<std::vector<Message>> ReadAll(std::string_view stream, std::size_t step,
                                     const FrameReader::Limits& limits = kGenerous) {
  FrameReader reader;
  reader.set_limits(limits);
  std::vector<Message> messages;
  while (!stream.empty()) {
    const std::span<std::byte> space = reader.Space();
    EXPECT_FALSE(space.empty());
    const std::size_t count = std::min({space.size(), stream.size(), step});
    std::memcpy(space.data(), stream.data(), count);
    reader.Filled(count);
    stream.remove_prefix(count);
    for (;;) {
      TFOS_ASSIGN_OR_RETURN(const FrameReader::Event event, reader.Next());
      if (event == FrameReader::Event::kNone) break;
      if (event == FrameReader::Event::kPayloadEnd) continue;
      const auto* body = reinterpret_cast<const char*>(reader.body().data());
      messages.push_back({reader.type(), std::string(body, reader.body().size()), ""});
      if (event == FrameReader::Event::kPayloadBegin) {
        std::string& payload = messages.back().payload;
        payload.resize(reader.payload_bytes());
        reader.SetTarget(std::as_writable_bytes(std::span(payload)));
      }
    }
  }
  return messages;
}

SessionOptions SomeSession() {
  return {.mode = Mode::kInference,
          .queue = "input",
          .key = {.job = {1, 2, 3}, .epoch = 4, .partition = 5},
          .attempt = 8,
          .region_bytes = 7,
          .until_read = true,
          .without_trained = true};
}

CountMessage SomeCount() {
  return {.key = {.job = {1, 2, 3}, .epoch = 4, .partition = 5}, .attempt = 8};
}

/// One of each, the ones with a payload included.
std::string EveryFrame() {
  std::string stream = Encode(SomeSession());
  stream += Encode(OpenedMessage{.result_limit = 2, .region_bytes = 3});
  stream += Encode(ChunkMessage{.offset = 64, .bytes = 2, .first = 7, .items = 3});
  stream += EncodeDataHead({.offset = 64, .first = 10, .items = 9}, 5) + "hello";
  stream += EncodeGrow(1 << 20) + EncodeRegion(1 << 21) + Encode(CreditMessage{.chunks = 3});
  stream += EncodeResultHead(2, 3) + "abc";
  stream += EncodeResultHead(0, 0);
  stream += EncodeEnd(8) + Encode(EndedMessage{.items = 8, .rows = 8});
  stream += EncodeError("Traceback ...") + EncodeStop() + EncodeProgress();
  stream += EncodeSuperseded(3) + Encode(SomeCount());
  stream += Encode(CountedMessage{.more = true, .chunks = {{{0, 5}, 6}, {{7, 9}, 8}}});
  stream += Encode(CountedMessage{});
  return stream;
}

TEST(FrameTest, MessagesSurviveTheWire) {
  const Result<SessionOptions> open = ParseOpen(Body(Encode(SomeSession())));
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(open->mode, Mode::kInference);
  EXPECT_EQ(open->queue, "input");
  EXPECT_EQ(open->key, SomeSession().key);
  EXPECT_EQ(open->attempt, SomeSession().attempt);
  EXPECT_EQ(open->region_bytes, 7u);
  EXPECT_TRUE(open->until_read);
  EXPECT_TRUE(open->without_trained);

  const Result<OpenedMessage> opened = ParseOpened(
      Body(Encode(OpenedMessage{.status = OpenStatus::kFeedOver, .region_bytes = ~0ull})));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->status, OpenStatus::kFeedOver);
  EXPECT_EQ(opened->region_bytes, ~0ull);

  const Result<ChunkMessage> chunk = ParseChunk(Body(Encode(
      ChunkMessage{.offset = 1ull << 40, .bytes = 2, .first = 4, .items = 3, .rows_read = 5})));
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(chunk->offset, 1ull << 40);
  EXPECT_EQ(chunk->bytes, 2u);
  EXPECT_EQ(chunk->first, 4u);
  EXPECT_EQ(chunk->items, 3u);
  EXPECT_EQ(chunk->rows_read, 5u);

  const Result<DataHead> data =
      ParseDataHead(Bytes(EncodeDataHead({.offset = 64, .first = 4, .items = 3, .rows_read = 6}, 9))
                        .subspan(kFrameHeaderBytes, kDataHeadBytes));
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->offset, 64u);
  EXPECT_EQ(data->first, 4u);
  EXPECT_EQ(data->items, 3u);
  EXPECT_EQ(data->rows_read, 6u);

  const Result<CountMessage> count = ParseCount(Body(Encode(SomeCount())));
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(count->key, SomeCount().key);
  EXPECT_EQ(count->attempt, SomeCount().attempt);

  const CountedMessage two{.more = true, .chunks = {{{0, 5}, 6}, {{7, ~0ull}, ~0u}}};
  const Result<CountedMessage> counted = ParseCounted(Body(Encode(two)));
  ASSERT_TRUE(counted.ok());
  EXPECT_TRUE(counted->more);
  EXPECT_EQ(counted->chunks, two.chunks);
}

TEST(FrameTest, CountedRangesThatAreNoneOrTooManyAreMalformed) {
  EXPECT_FALSE(ParseCounted(Body(Encode(CountedMessage{.chunks = {{{5, 5}, 0}}}))).ok());
  EXPECT_FALSE(ParseCounted(Body(Encode(CountedMessage{.chunks = {{{5, 4}, 0}}}))).ok());
  CountedMessage full{.chunks = std::vector<AcceptedChunk>(kChunksInCounted, {{0, 1}, 0})};
  EXPECT_TRUE(ParseCounted(Body(Encode(full))).ok());
  full.chunks.push_back({{0, 1}, 0});
  EXPECT_FALSE(ParseCounted(Body(Encode(full))).ok());
  std::string odd = Encode(CountedMessage{});
  odd[kFrameHeaderBytes] = 2;
  EXPECT_FALSE(ParseCounted(Body(odd)).ok());
}

TEST(FrameTest, TheBytesAreThoseOfTheProtocolPage) {
  EXPECT_EQ(Encode(CreditMessage{.chunks = 0x01020304, .accepted = {.of_epoch = 5, .of_all = 6}}),
            std::string("TFF1\x0a\0\0\0\x14\0\0\0\x04\x03\x02\x01\x05\0\0\0\0\0\0\0"
                        "\x06\0\0\0\0\0\0\0",
                        32));
}

TEST(FrameTest, ABodyOfAnotherLengthIsMalformed) {
  const std::string open = Encode(SomeSession());
  EXPECT_FALSE(ParseOpen(Body(open).first(Body(open).size() - 1)).ok());
  EXPECT_FALSE(ParseOpen(Body(open + "x")).ok());
  EXPECT_FALSE(ParseCredit(Bytes("12345")).ok());
  EXPECT_FALSE(ParseU64(Bytes("1234567")).ok());
}

TEST(FrameTest, UnknownModesAreMalformed) {
  std::string open = Encode(SomeSession());
  open[kFrameHeaderBytes] = 3;
  EXPECT_FALSE(ParseOpen(Body(open)).ok());
}

TEST(FrameTest, ALongErrorLosesItsMiddle) {
  const std::string text = "first " + std::string(3 * kErrorTextLimit, 'x') + " last";
  const Result<std::vector<Message>> messages = ReadAll(EncodeError(text), 1 << 20);
  ASSERT_TRUE(messages.ok());
  ASSERT_EQ(messages->size(), 1u);
  const std::string& cut = messages->front().payload;
  EXPECT_LE(cut.size(), kErrorTextLimit);
  EXPECT_TRUE(cut.starts_with("first "));
  EXPECT_TRUE(cut.ends_with(" last"));
}

TEST(FrameReaderTest, TheStreamMayBeCutAnywhere) {
  const std::string stream = EveryFrame();
  const Result<std::vector<Message>> whole = ReadAll(stream, stream.size());
  ASSERT_TRUE(whole.ok()) << whole.status().DebugString();
  ASSERT_EQ(whole->size(), 18u);
  EXPECT_EQ((*whole)[3].payload, "hello");
  for (std::size_t step = 1; step < 40; ++step) {
    const Result<std::vector<Message>> pieces = ReadAll(stream, step);
    ASSERT_TRUE(pieces.ok());
    EXPECT_EQ(*pieces, *whole) << "step " << step;
  }
}

TEST(FrameReaderTest, PayloadsMayBeLargerThanItsBuffer) {
  const std::string large(300'000, 'z');
  const std::string stream = Encode(CreditMessage{.chunks = 1}) + EncodeDataHead({}, 300'000) +
                             large + Encode(CreditMessage{.chunks = 2});
  for (const std::size_t step : {1000u, 70'000u, 1u << 20}) {
    const Result<std::vector<Message>> messages = ReadAll(stream, step);
    ASSERT_TRUE(messages.ok());
    ASSERT_EQ(messages->size(), 3u);
    EXPECT_EQ((*messages)[1].payload, large);
  }
}

TEST(FrameReaderTest, RefusesGarbageAndWhatIsTooLarge) {
  EXPECT_FALSE(ReadAll("GET / HTTP/1.1\r\n\r\n", 100).ok());
  std::string too_long = Encode(CreditMessage{.chunks = 1});
  too_long[8] = 1;
  too_long[10] = 1;  // 65,537 bytes.
  EXPECT_FALSE(ReadAll(too_long, 100).ok());
  EXPECT_FALSE(ReadAll(EncodeDataHead({}, 11), 100, {.data = 10}).ok());
  EXPECT_TRUE(ReadAll(EncodeDataHead({}, 10), 100, {.data = 10}).ok());
  EXPECT_FALSE(ReadAll(EncodeResultHead(1, 1), 100, {.data = 10}).ok());
  std::string short_head = EncodeResultHead(1, 0);
  short_head[8] = 4;  // Less than its fixed part.
  EXPECT_FALSE(ReadAll(short_head, 100).ok());
}

// Whatever a flipped bit makes of a frame, reading stays within bounds (the sanitizers watch), and
// a header that is still read says what its bits say.
TEST(FrameReaderTest, EveryBitFlipIsReadOrRefused) {
  const std::string stream = EveryFrame();
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < stream.size() * 8; ++bit) {
    std::string flipped = stream;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const Result<std::vector<Message>> messages = ReadAll(flipped, 4096);
    if (!messages.ok()) {
      ++refused;
      continue;
    }
    for (const Message& message : *messages) {
      const std::span<const std::byte> body = Bytes(message.body);
      (void)ParseOpen(body).ok();
      (void)ParseOpened(body).ok();
      (void)ParseChunk(body).ok();
      (void)ParseDataHead(body).ok();
      (void)ParseEnded(body).ok();
      (void)ParseCount(body).ok();
      (void)ParseCounted(body).ok();
    }
  }
  EXPECT_GT(refused, 18u * 8 * 6) << "magic, flags and reserved of 18 frames at least";
}

// As an earlier version began.
TEST(FrameTest, TheHandshakeOfEarlierVersionsIsUnknown) {
  for (const char type : {'\1', '\2', '\3'}) {
    std::string frame = EncodeStop();
    frame[4] = type;
    EXPECT_FALSE(ReadAll(frame, 4096).ok());
  }
}

}  // namespace
}  // namespace tfos::feed
