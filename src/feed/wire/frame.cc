#include "feed/wire/frame.h"

#include <algorithm>
#include <concepts>
#include <type_traits>
#include <utility>

#include "base/format.h"
#include "base/memory/bytes.h"

namespace tfos::feed {
namespace {

constexpr std::uint32_t kMagic = 0x31464654;  // "TFF1", little-endian.
constexpr std::size_t kQueueNameLimit = 255;
/// Stands for the middle of an error text that is too long.
constexpr std::string_view kCut = "\n... (cut) ...\n";
constexpr std::size_t kKeptOfError = (kErrorTextLimit - kCut.size()) / 2;

constexpr std::pair<MessageType, std::string_view> kMessageNames[] = {
    {MessageType::kOpen, "OPEN"},         {MessageType::kOpened, "OPENED"},
    {MessageType::kChunk, "CHUNK"},       {MessageType::kData, "DATA"},
    {MessageType::kGrow, "GROW"},         {MessageType::kRegion, "REGION"},
    {MessageType::kCredit, "CREDIT"},     {MessageType::kResult, "RESULT"},
    {MessageType::kEnd, "END"},           {MessageType::kEnded, "ENDED"},
    {MessageType::kError, "ERROR"},       {MessageType::kStop, "STOP"},
    {MessageType::kProgress, "PROGRESS"}, {MessageType::kCount, "COUNT"},
    {MessageType::kCounted, "COUNTED"},   {MessageType::kSuperseded, "SUPERSEDED"},
};

/// Builds one frame: header first, then fields in order.
class Writer {
 public:
  explicit Writer(MessageType type) {
    AppendBytes(kMagic, frame_);
    AppendBytes(type, frame_);
    AppendBytes(std::uint8_t{0}, frame_);
    AppendBytes(std::uint16_t{0}, frame_);
    AppendBytes(std::uint32_t{0}, frame_);
  }

  void Put(std::string_view bytes) { frame_.append(bytes); }

  // What Fields calls.

  template <typename... Field>
  void operator()(const Field&... fields) {
    (AppendBytes(fields, frame_), ...);
  }
  template <typename Enum>
  void UpTo(Enum /*last*/, Enum value) {
    AppendBytes(value, frame_);
  }
  void Flag(bool flag) { AppendBytes(static_cast<std::uint8_t>(flag), frame_); }
  void ShortText(std::string_view text) {
    text = text.substr(0, kQueueNameLimit);
    AppendBytes(static_cast<std::uint8_t>(text.size()), frame_);
    Put(text);
  }
  void ChunksToTheEnd(const std::vector<AcceptedChunk>& chunks) {
    for (const AcceptedChunk& chunk : chunks) {
      (*this)(chunk.items.begin, chunk.items.end, chunk.checksum);
    }
  }

  /// `following` bytes of the body are sent after this string.
  std::string Finish(std::uint32_t following = 0) {
    const auto body = static_cast<std::uint32_t>(frame_.size() - kFrameHeaderBytes) + following;
    auto* const header = reinterpret_cast<std::byte*>(frame_.data());
    Store(body, header + kFrameHeaderBytes - sizeof(body));
    return std::move(frame_);
  }

 private:
  std::string frame_;
};

/// Takes the fields of a body in order.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> body) : rest_(body) {}

  // What Fields calls.

  template <typename... Field>
  void operator()(Field&... fields) {
    ((fields = rest_.Take<Field>()), ...);
  }
  template <typename Enum>
  void UpTo(Enum last, Enum& value) {
    value = rest_.TakeEnum(last);
  }
  void Flag(bool& flag) { flag = rest_.TakeFlag(); }
  void ShortText(std::string& text) { text = rest_.TakeText(rest_.Take<std::uint8_t>()); }
  void ChunksToTheEnd(std::vector<AcceptedChunk>& chunks) {
    if (rest_.left() / kChunkBytes > kChunksInCounted) rest_.Refuse();
    while (rest_.left() != 0) {
      AcceptedChunk chunk{};
      (*this)(chunk.items.begin, chunk.items.end, chunk.checksum);
      if (chunk.items.begin >= chunk.items.end) rest_.Refuse();
      chunks.push_back(chunk);
    }
  }

  /// OK when all was taken and nothing was missing.
  Status Done(MessageType type) const {
    if (rest_.complete()) return {};
    return {ErrorKind::kBadInput, fmt::format("malformed {} message", MessageTypeName(type))};
  }

 private:
  static constexpr std::size_t kChunkBytes = 2 * sizeof(std::uint64_t) + sizeof(std::uint32_t);

  ByteReader rest_;
};

template <typename Given, typename Message>
concept Is = std::same_as<std::remove_const_t<Given>, Message>;

// The fields of each message in the order of docs/formats/feed-protocol.md: for a Writer, which
// reads them, and for a Reader, which sets them.

template <Is<PartitionKey> Key, Is<AttemptId> Try>
void Fields(auto& each, Key& key, Try& attempt) {
  each(key.job, key.epoch, key.partition, attempt);
}

template <Is<SessionOptions> Message>
void Fields(auto& each, Message& message) {
  each.UpTo(Mode::kPass, message.mode);
  each.ShortText(message.queue);
  Fields(each, message.key, message.attempt);
  each(message.region_bytes);
  each.UpTo(CachePlace::kDisk, message.replay.place);
  each(message.replay.epochs, message.replay.shuffle_seed);
  each.Flag(message.until_read);
  each.Flag(message.without_trained);
}

template <Is<OpenedMessage> Message>
void Fields(auto& each, Message& message) {
  each.UpTo(OpenStatus::kUnknownQueue, message.status);
  each(message.result_limit, message.region_bytes);
}

template <Is<ChunkMessage> Message>
void Fields(auto& each, Message& message) {
  each(message.offset, message.bytes, message.first, message.items, message.rows_read,
       message.checksum);
}

template <Is<DataHead> Message>
void Fields(auto& each, Message& message) {
  each(message.offset, message.first, message.items, message.rows_read, message.checksum);
}

template <Is<CountMessage> Message>
void Fields(auto& each, Message& message) {
  Fields(each, message.key, message.attempt);
  each.Flag(message.chunks);
}

template <Is<CountedMessage> Message>
void Fields(auto& each, Message& message) {
  each.Flag(message.more);
  each(message.accepted.of_epoch, message.accepted.of_all);
  each.ChunksToTheEnd(message.chunks);
}

template <Is<EndedMessage> Message>
void Fields(auto& each, Message& message) {
  each(message.items, message.rows);
}

template <Is<CreditMessage> Message>
void Fields(auto& each, Message& message) {
  each(message.chunks, message.accepted.of_epoch, message.accepted.of_all);
}

/// `following` as in Writer::Finish.
template <typename Message>
std::string EncodeAs(MessageType type, const Message& message, std::uint32_t following = 0) {
  Writer writer(type);
  Fields(writer, message);
  return writer.Finish(following);
}

template <typename Message>
Result<Message> ParseAs(MessageType type, std::span<const std::byte> body) {
  Reader reader(body);
  Message message;
  Fields(reader, message);
  TFOS_RETURN_IF_ERROR(reader.Done(type));
  return message;
}

std::string EncodeU64(MessageType type, std::uint64_t value, std::uint32_t following = 0) {
  Writer writer(type);
  writer(value);
  return writer.Finish(following);
}

}  // namespace

std::string_view MessageTypeName(MessageType type) {
  for (const auto& [known, name] : kMessageNames) {
    if (type == known) return name;
  }
  return "unknown";
}

std::string Encode(const SessionOptions& message) { return EncodeAs(MessageType::kOpen, message); }

std::string Encode(const OpenedMessage& message) { return EncodeAs(MessageType::kOpened, message); }

std::string Encode(const ChunkMessage& message) { return EncodeAs(MessageType::kChunk, message); }

std::string Encode(const CountMessage& message) { return EncodeAs(MessageType::kCount, message); }

std::string Encode(const CountedMessage& message) {
  return EncodeAs(MessageType::kCounted, message);
}

std::string Encode(const EndedMessage& message) { return EncodeAs(MessageType::kEnded, message); }

std::string EncodeGrow(std::uint64_t bytes) { return EncodeU64(MessageType::kGrow, bytes); }

std::string EncodeRegion(std::uint64_t bytes) { return EncodeU64(MessageType::kRegion, bytes); }

std::string Encode(const CreditMessage& message) { return EncodeAs(MessageType::kCredit, message); }

std::string EncodeEnd(std::uint64_t items) { return EncodeU64(MessageType::kEnd, items); }

std::string EncodeStop() { return Writer(MessageType::kStop).Finish(); }

std::string EncodeProgress() { return Writer(MessageType::kProgress).Finish(); }

std::string EncodeSuperseded(AttemptId attempt) {
  return EncodeU64(MessageType::kSuperseded, attempt);
}

std::string EncodeError(std::string_view text) {
  Writer writer(MessageType::kError);
  if (text.size() <= kErrorTextLimit) {
    writer.Put(text);
  } else {
    writer.Put(text.substr(0, kKeptOfError));
    writer.Put(kCut);
    writer.Put(text.substr(text.size() - kKeptOfError));
  }
  return writer.Finish();
}

std::string EncodeDataHead(const DataHead& head, std::uint32_t bytes) {
  return EncodeAs(MessageType::kData, head, bytes);
}

std::string EncodeResultHead(std::uint64_t rows, std::uint32_t bytes) {
  return EncodeU64(MessageType::kResult, rows, bytes);
}

Result<SessionOptions> ParseOpen(std::span<const std::byte> body) {
  return ParseAs<SessionOptions>(MessageType::kOpen, body);
}

Result<OpenedMessage> ParseOpened(std::span<const std::byte> body) {
  return ParseAs<OpenedMessage>(MessageType::kOpened, body);
}

Result<ChunkMessage> ParseChunk(std::span<const std::byte> body) {
  return ParseAs<ChunkMessage>(MessageType::kChunk, body);
}

Result<DataHead> ParseDataHead(std::span<const std::byte> head) {
  return ParseAs<DataHead>(MessageType::kData, head);
}

Result<CountMessage> ParseCount(std::span<const std::byte> body) {
  return ParseAs<CountMessage>(MessageType::kCount, body);
}

Result<CountedMessage> ParseCounted(std::span<const std::byte> body) {
  return ParseAs<CountedMessage>(MessageType::kCounted, body);
}

Result<EndedMessage> ParseEnded(std::span<const std::byte> body) {
  return ParseAs<EndedMessage>(MessageType::kEnded, body);
}

Result<std::uint64_t> ParseU64(std::span<const std::byte> body) {
  if (body.size() != sizeof(std::uint64_t)) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a message with {} bytes instead of 8", body.size()));
  }
  return Load<std::uint64_t>(body.data());
}

Result<CreditMessage> ParseCredit(std::span<const std::byte> body) {
  return ParseAs<CreditMessage>(MessageType::kCredit, body);
}

Result<FrameHeader> ParseFrameHeader(std::span<const std::byte, kFrameHeaderBytes> header) {
  ByteReader reader(header);
  const auto magic = reader.Take<std::uint32_t>();
  const auto type = reader.Take<std::uint8_t>();
  const auto flags = reader.Take<std::uint8_t>();
  const auto reserved = reader.Take<std::uint16_t>();
  const auto body_bytes = reader.Take<std::uint32_t>();
  if (magic != kMagic) {
    return Status(ErrorKind::kBadInput, "the other side does not speak tfos feed");
  }
  if (type < static_cast<std::uint8_t>(MessageType::kOpen) ||
      type > static_cast<std::uint8_t>(MessageType::kSuperseded) || flags != 0 || reserved != 0) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("unknown message (type {}, flags {})", type, flags));
  }
  return FrameHeader{.type = static_cast<MessageType>(type), .body_bytes = body_bytes};
}

}  // namespace tfos::feed
