#ifndef TFOS_FEED_WIRE_FRAME_H_
#define TFOS_FEED_WIRE_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"
#include "net/handshake/protocol.h"
#include "tfos/status.h"

// The messages of docs/formats/feed-protocol.md as values and as bytes. Pure: no sockets.

namespace tfos::feed {

/// How a connection begins. Numbers: a feeder's partition or a node's id connects, the id of the
/// node that is to be fed accepts.
inline constexpr net::Protocol kFeedProtocol{.magic = "tfos-fee", .version = 6, .name = "feed"};

inline constexpr std::size_t kFrameHeaderBytes = 12;
inline constexpr std::uint32_t kPlainBodyLimit = 64 * 1024;
inline constexpr std::uint32_t kErrorTextLimit = 1024 * 1024;
/// Sizes of the fixed parts that precede the bytes of DATA and RESULT.
inline constexpr std::uint32_t kDataHeadBytes = 36;
inline constexpr std::uint32_t kResultHeadBytes = 8;
/// What one COUNTED holds at most; there may be several.
inline constexpr std::size_t kChunksInCounted = 2000;
/// A chunk that is sent as DATA can't be larger: its frame counts bytes in 32 bits.
inline constexpr std::uint64_t kDataLimit = 0xffff'0000;

enum class MessageType : std::uint8_t {
  // 1 to 3 were the handshake of earlier versions.
  kOpen = 4,
  kOpened = 5,
  kChunk = 6,
  kData = 7,
  kGrow = 8,
  kRegion = 9,
  kCredit = 10,
  kResult = 11,
  kEnd = 12,
  kEnded = 13,
  kError = 14,
  kStop = 15,
  kProgress = 16,
  kCount = 17,
  kCounted = 18,
  kSuperseded = 19,
};

std::string_view MessageTypeName(MessageType type);

enum class OpenStatus : std::uint8_t { kGoOn = 0, kFeedOver = 1, kUnknownQueue = 2 };

struct OpenedMessage {
  OpenStatus status = OpenStatus::kGoOn;
  std::uint32_t result_limit = 0;
  std::uint64_t region_bytes = 0;
};

struct ChunkMessage {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first = 0;  ///< The chunk's first item, counted from the partition's start.
  std::uint64_t items = 0;
  std::uint64_t rows_read = 0;  ///< Its first rows, which another node's program has read.
  std::uint32_t checksum = 0;   ///< CRC-32C of the chunk, for the attempts that skip it.
};

/// The fixed part of DATA; the chunk's bytes follow.
struct DataHead {
  std::uint64_t offset = 0;
  std::uint64_t first = 0;
  std::uint64_t items = 0;
  std::uint64_t rows_read = 0;  ///< As in ChunkMessage.
  std::uint32_t checksum = 0;   ///< Likewise.
};

/// CREDIT: so many chunks, oldest first, are free again.
struct CreditMessage {
  std::uint32_t chunks = 0;
  AcceptedBytes accepted = {};
};

/// COUNT: what does the node have?
struct CountMessage {
  PartitionKey key = {};
  AttemptId attempt = 0;
  bool chunks = false;  ///< Those of the partition, too; else the bytes are enough.
};

/// COUNTED: these, and with `more` those of the next COUNTED.
struct CountedMessage {
  bool more = false;
  AcceptedBytes accepted = {};
  std::vector<AcceptedChunk> chunks = {};  ///< At most kChunksInCounted.
};

/// ENDED: what came in and what went back.
struct EndedMessage {
  std::uint64_t items = 0;
  std::uint64_t rows = 0;
};

std::string Encode(const SessionOptions& message);
std::string Encode(const OpenedMessage& message);
std::string Encode(const ChunkMessage& message);
std::string Encode(const CountMessage& message);
std::string Encode(const CountedMessage& message);
std::string Encode(const EndedMessage& message);
std::string EncodeGrow(std::uint64_t bytes);
std::string EncodeRegion(std::uint64_t bytes);
std::string Encode(const CreditMessage& message);
std::string EncodeEnd(std::uint64_t items);
std::string EncodeStop();
std::string EncodeProgress();
std::string EncodeSuperseded(AttemptId attempt);
/// A text beyond the limit loses its middle.
std::string EncodeError(std::string_view text);
/// The frame up to where the `bytes` bytes of the chunk follow.
std::string EncodeDataHead(const DataHead& head, std::uint32_t bytes);
std::string EncodeResultHead(std::uint64_t rows, std::uint32_t bytes);

// Each fails with kBadInput for a body that is not exactly such a message.
Result<SessionOptions> ParseOpen(std::span<const std::byte> body);
Result<OpenedMessage> ParseOpened(std::span<const std::byte> body);
Result<ChunkMessage> ParseChunk(std::span<const std::byte> body);
Result<DataHead> ParseDataHead(std::span<const std::byte> head);
Result<CountMessage> ParseCount(std::span<const std::byte> body);
Result<CountedMessage> ParseCounted(std::span<const std::byte> body);
Result<EndedMessage> ParseEnded(std::span<const std::byte> body);
/// GROW, REGION, END and the head of RESULT: one u64.
Result<std::uint64_t> ParseU64(std::span<const std::byte> body);
Result<CreditMessage> ParseCredit(std::span<const std::byte> body);

/// What every frame begins with.
struct FrameHeader {
  MessageType type = MessageType::kError;
  std::uint32_t body_bytes = 0;
};

/// kBadInput for anything but the header of a known message.
Result<FrameHeader> ParseFrameHeader(std::span<const std::byte, kFrameHeaderBytes> header);

}  // namespace tfos::feed

#endif  // TFOS_FEED_WIRE_FRAME_H_
