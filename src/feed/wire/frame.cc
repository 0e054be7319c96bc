#include "feed/wire/frame.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/format.h"

namespace tfos::feed {
namespace {

constexpr std::uint32_t kMagic = 0x31464654;  // "TFF1", little-endian.
constexpr std::size_t kQueueNameLimit = 255;
/// Stands for the middle of an error text that is too long.
constexpr std::string_view kCut = "\n... (cut) ...\n";
constexpr std::size_t kKeptOfError = (kErrorTextLimit - kCut.size()) / 2;

/// Builds one frame: header first, then fields in order.
class Writer {
 public:
  explicit Writer(MessageType type) {
    Put(kMagic);
    Put(static_cast<std::uint8_t>(type));
    Put(std::uint8_t{0});
    Put(std::uint16_t{0});
    Put(std::uint32_t{0});
  }

  template <typename T>
    requires std::is_unsigned_v<T>
  void Put(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      frame_.push_back(static_cast<char>(value >> (8 * i) & 0xff));
    }
  }
  void Put(std::string_view bytes) { frame_.append(bytes); }
  template <std::size_t kSize>
  void Put(const std::array<std::uint8_t, kSize>& bytes) {
    frame_.append(reinterpret_cast<const char*>(bytes.data()), kSize);
  }

  /// `following` bytes of the body are sent after this string.
  std::string Finish(std::uint32_t following = 0) {
    const auto body = static_cast<std::uint32_t>(frame_.size() - kFrameHeaderBytes) + following;
    for (std::size_t i = 0; i < sizeof(body); ++i) {
      frame_[kFrameHeaderBytes - sizeof(body) + i] = static_cast<char>(body >> (8 * i) & 0xff);
    }
    return std::move(frame_);
  }

 private:
  std::string frame_;
};

/// Takes fields off the front of a body; reading beyond its end is remembered, not done.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
    requires std::is_unsigned_v<T>
  T Take() {
    T value = 0;
    const std::span<const std::byte> bytes = TakeBytes(sizeof(T));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      value |= static_cast<T>(static_cast<T>(std::to_integer<std::uint8_t>(bytes[i])) << (8 * i));
    }
    return value;
  }
  template <std::size_t kSize>
  void Take(std::array<std::uint8_t, kSize>& out) {
    const std::span<const std::byte> bytes = TakeBytes(kSize);
    std::transform(bytes.begin(), bytes.end(), out.begin(), std::to_integer<std::uint8_t>);
  }
  std::span<const std::byte> TakeBytes(std::size_t count) {
    if (count > left_.size()) {
      short_ = true;
      return {};
    }
    const std::span<const std::byte> taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  void Fail() { short_ = true; }

  /// OK when all was taken and nothing was missing.
  Status Done(MessageType type) const {
    if (!short_ && left_.empty()) return {};
    return {ErrorKind::kBadInput, fmt::format("malformed {} message", MessageTypeName(type))};
  }

 private:
  std::span<const std::byte> left_;
  bool short_ = false;
};

template <typename T>
Result<T> Finished(const Reader& reader, MessageType type, T message) {
  TFOS_RETURN_IF_ERROR(reader.Done(type));
  return message;
}

std::string EncodeU64(MessageType type, std::uint64_t value) {
  Writer writer(type);
  writer.Put(value);
  return writer.Finish();
}

Digest Proof(const Secret& token, std::string_view label, const Nonce& first, const Nonce& second) {
  std::string text(label);
  text.append(reinterpret_cast<const char*>(first.data()), first.size());
  text.append(reinterpret_cast<const char*>(second.data()), second.size());
  return HmacSha256(token, text);
}

}  // namespace

std::string_view MessageTypeName(MessageType type) {
  switch (type) {
    case MessageType::kChallenge:
      return "CHALLENGE";
    case MessageType::kHello:
      return "HELLO";
    case MessageType::kWelcome:
      return "WELCOME";
    case MessageType::kOpen:
      return "OPEN";
    case MessageType::kOpened:
      return "OPENED";
    case MessageType::kChunk:
      return "CHUNK";
    case MessageType::kData:
      return "DATA";
    case MessageType::kGrow:
      return "GROW";
    case MessageType::kRegion:
      return "REGION";
    case MessageType::kCredit:
      return "CREDIT";
    case MessageType::kResult:
      return "RESULT";
    case MessageType::kEnd:
      return "END";
    case MessageType::kEnded:
      return "ENDED";
    case MessageType::kError:
      return "ERROR";
    case MessageType::kStop:
      return "STOP";
    case MessageType::kProgress:
      return "PROGRESS";
    case MessageType::kCount:
      return "COUNT";
    case MessageType::kCounted:
      return "COUNTED";
    case MessageType::kSuperseded:
      return "SUPERSEDED";
  }
  return "unknown";
}

Result<Nonce> RandomNonce() {
  TFOS_ASSIGN_OR_RETURN(const Secret random, Secret::Generate());
  Nonce nonce;
  std::copy(random.bytes().begin(), random.bytes().end(), nonce.begin());
  return nonce;
}

Digest FeederProof(const Secret& token, const Nonce& server, const Nonce& feeder) {
  return Proof(token, "tfos feeder", server, feeder);
}

Digest NodeProof(const Secret& token, const Nonce& server, const Nonce& feeder) {
  return Proof(token, "tfos node", feeder, server);
}

std::string Encode(const Challenge& message) {
  Writer writer(MessageType::kChallenge);
  writer.Put(message.version);
  writer.Put(message.nonce);
  return writer.Finish();
}

std::string Encode(const Hello& message) {
  Writer writer(MessageType::kHello);
  writer.Put(message.version);
  writer.Put(message.nonce);
  writer.Put(message.proof);
  return writer.Finish();
}

std::string Encode(const Welcome& message) {
  Writer writer(MessageType::kWelcome);
  writer.Put(message.proof);
  writer.Put(message.node_id);
  writer.Put(static_cast<std::uint32_t>(message.shares_memory));
  return writer.Finish();
}

std::string Encode(const SessionOptions& message) {
  Writer writer(MessageType::kOpen);
  const std::string_view queue = std::string_view(message.queue).substr(0, kQueueNameLimit);
  writer.Put(static_cast<std::uint8_t>(message.mode));
  writer.Put(static_cast<std::uint8_t>(queue.size()));
  writer.Put(queue);
  writer.Put(message.key.job);
  writer.Put(message.key.epoch);
  writer.Put(message.key.partition);
  writer.Put(message.attempt.number);
  writer.Put(message.attempt.id);
  writer.Put(message.region_bytes);
  writer.Put(static_cast<std::uint8_t>(message.replay.place));
  writer.Put(message.replay.epochs);
  writer.Put(message.replay.shuffle_seed);
  writer.Put(static_cast<std::uint8_t>(message.until_read));
  return writer.Finish();
}

std::string Encode(const OpenedMessage& message) {
  Writer writer(MessageType::kOpened);
  writer.Put(static_cast<std::uint8_t>(message.status));
  writer.Put(message.result_limit);
  writer.Put(message.region_bytes);
  return writer.Finish();
}

std::string Encode(const ChunkMessage& message) {
  Writer writer(MessageType::kChunk);
  writer.Put(message.offset);
  writer.Put(message.bytes);
  writer.Put(message.first);
  writer.Put(message.items);
  writer.Put(message.rows_read);
  return writer.Finish();
}

std::string Encode(const CountMessage& message) {
  Writer writer(MessageType::kCount);
  writer.Put(message.key.job);
  writer.Put(message.key.epoch);
  writer.Put(message.key.partition);
  writer.Put(message.attempt.number);
  writer.Put(message.attempt.id);
  return writer.Finish();
}

std::string Encode(const CountedMessage& message) {
  Writer writer(MessageType::kCounted);
  writer.Put(static_cast<std::uint8_t>(message.more));
  writer.Put(message.accepted_bytes);
  for (const ItemRange& range : message.ranges) {
    writer.Put(range.begin);
    writer.Put(range.end);
  }
  return writer.Finish();
}

std::string Encode(const EndedMessage& message) {
  Writer writer(MessageType::kEnded);
  writer.Put(message.items);
  writer.Put(message.rows);
  return writer.Finish();
}

std::string EncodeGrow(std::uint64_t bytes) { return EncodeU64(MessageType::kGrow, bytes); }

std::string EncodeRegion(std::uint64_t bytes) { return EncodeU64(MessageType::kRegion, bytes); }

std::string Encode(const CreditMessage& message) {
  Writer writer(MessageType::kCredit);
  writer.Put(message.chunks);
  writer.Put(message.accepted_bytes);
  return writer.Finish();
}

std::string EncodeEnd(std::uint64_t items) { return EncodeU64(MessageType::kEnd, items); }

std::string EncodeStop() { return Writer(MessageType::kStop).Finish(); }

std::string EncodeProgress() { return Writer(MessageType::kProgress).Finish(); }

std::string EncodeSuperseded(std::uint32_t attempt) {
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
  Writer writer(MessageType::kData);
  writer.Put(head.offset);
  writer.Put(head.first);
  writer.Put(head.items);
  writer.Put(head.rows_read);
  return writer.Finish(bytes);
}

std::string EncodeResultHead(std::uint64_t rows, std::uint32_t bytes) {
  Writer writer(MessageType::kResult);
  writer.Put(rows);
  return writer.Finish(bytes);
}

Result<Challenge> ParseChallenge(std::span<const std::byte> body) {
  Reader reader(body);
  Challenge message;
  message.version = reader.Take<std::uint16_t>();
  reader.Take(message.nonce);
  return Finished(reader, MessageType::kChallenge, message);
}

Result<Hello> ParseHello(std::span<const std::byte> body) {
  Reader reader(body);
  Hello message;
  message.version = reader.Take<std::uint16_t>();
  reader.Take(message.nonce);
  reader.Take(message.proof);
  return Finished(reader, MessageType::kHello, message);
}

Result<Welcome> ParseWelcome(std::span<const std::byte> body) {
  Reader reader(body);
  Welcome message;
  reader.Take(message.proof);
  message.node_id = reader.Take<std::uint32_t>();
  message.shares_memory = (reader.Take<std::uint32_t>() & 1) != 0;
  return Finished(reader, MessageType::kWelcome, message);
}

Result<SessionOptions> ParseOpen(std::span<const std::byte> body) {
  Reader reader(body);
  SessionOptions message;
  const auto mode = reader.Take<std::uint8_t>();
  if (mode > static_cast<std::uint8_t>(Mode::kPass)) reader.Fail();
  message.mode = static_cast<Mode>(mode);
  const std::span<const std::byte> queue = reader.TakeBytes(reader.Take<std::uint8_t>());
  message.queue.assign(reinterpret_cast<const char*>(queue.data()), queue.size());
  reader.Take(message.key.job);
  message.key.epoch = reader.Take<std::uint32_t>();
  message.key.partition = reader.Take<std::uint32_t>();
  message.attempt.number = reader.Take<std::uint32_t>();
  message.attempt.id = reader.Take<std::uint64_t>();
  message.region_bytes = reader.Take<std::uint64_t>();
  const auto place = reader.Take<std::uint8_t>();
  if (place > static_cast<std::uint8_t>(CachePlace::kDisk)) reader.Fail();
  message.replay.place = static_cast<CachePlace>(place);
  message.replay.epochs = reader.Take<std::uint32_t>();
  message.replay.shuffle_seed = reader.Take<std::uint64_t>();
  const auto until_read = reader.Take<std::uint8_t>();
  if (until_read > 1) reader.Fail();
  message.until_read = until_read == 1;
  return Finished(reader, MessageType::kOpen, std::move(message));
}

Result<OpenedMessage> ParseOpened(std::span<const std::byte> body) {
  Reader reader(body);
  OpenedMessage message;
  const auto status = reader.Take<std::uint8_t>();
  if (status > static_cast<std::uint8_t>(OpenStatus::kUnknownQueue)) reader.Fail();
  message.status = static_cast<OpenStatus>(status);
  message.result_limit = reader.Take<std::uint32_t>();
  message.region_bytes = reader.Take<std::uint64_t>();
  return Finished(reader, MessageType::kOpened, message);
}

Result<ChunkMessage> ParseChunk(std::span<const std::byte> body) {
  Reader reader(body);
  ChunkMessage message;
  message.offset = reader.Take<std::uint64_t>();
  message.bytes = reader.Take<std::uint64_t>();
  message.first = reader.Take<std::uint64_t>();
  message.items = reader.Take<std::uint64_t>();
  message.rows_read = reader.Take<std::uint64_t>();
  return Finished(reader, MessageType::kChunk, message);
}

Result<DataHead> ParseDataHead(std::span<const std::byte> head) {
  Reader reader(head);
  DataHead message;
  message.offset = reader.Take<std::uint64_t>();
  message.first = reader.Take<std::uint64_t>();
  message.items = reader.Take<std::uint64_t>();
  message.rows_read = reader.Take<std::uint64_t>();
  return Finished(reader, MessageType::kData, message);
}

Result<CountMessage> ParseCount(std::span<const std::byte> body) {
  Reader reader(body);
  CountMessage message;
  reader.Take(message.key.job);
  message.key.epoch = reader.Take<std::uint32_t>();
  message.key.partition = reader.Take<std::uint32_t>();
  message.attempt.number = reader.Take<std::uint32_t>();
  message.attempt.id = reader.Take<std::uint64_t>();
  return Finished(reader, MessageType::kCount, message);
}

Result<CountedMessage> ParseCounted(std::span<const std::byte> body) {
  Reader reader(body);
  CountedMessage message;
  const auto more = reader.Take<std::uint8_t>();
  if (more > 1) reader.Fail();
  message.more = more == 1;
  message.accepted_bytes = reader.Take<std::uint64_t>();
  const std::size_t ranges = body.size() / (2 * sizeof(std::uint64_t));
  if (ranges > kRangesInCounted) reader.Fail();
  for (std::size_t i = 0; i < std::min(ranges, kRangesInCounted); ++i) {
    const auto begin = reader.Take<std::uint64_t>();
    const auto end = reader.Take<std::uint64_t>();
    if (begin >= end) reader.Fail();
    message.ranges.push_back({begin, end});
  }
  return Finished(reader, MessageType::kCounted, std::move(message));
}

Result<EndedMessage> ParseEnded(std::span<const std::byte> body) {
  Reader reader(body);
  EndedMessage message;
  message.items = reader.Take<std::uint64_t>();
  message.rows = reader.Take<std::uint64_t>();
  return Finished(reader, MessageType::kEnded, message);
}

Result<std::uint64_t> ParseU64(std::span<const std::byte> body) {
  if (body.size() != sizeof(std::uint64_t)) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a message with {} bytes instead of 8", body.size()));
  }
  return Reader(body).Take<std::uint64_t>();
}

Result<CreditMessage> ParseCredit(std::span<const std::byte> body) {
  Reader reader(body);
  CreditMessage message;
  message.chunks = reader.Take<std::uint32_t>();
  message.accepted_bytes = reader.Take<std::uint64_t>();
  return Finished(reader, MessageType::kCredit, message);
}

FrameReader::FrameReader() : buffer_(kFrameHeaderBytes + kPlainBodyLimit) {}

std::span<std::byte> FrameReader::Space() {
  if (in_payload_ && buffered() == 0) return target_;
  // A whole plain frame fits once what was parsed is gone.
  if (parsed_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + parsed_, buffered());
    filled_ -= parsed_;
    parsed_ = 0;
    body_ = {};
  }
  return std::span(buffer_).subspan(filled_);
}

void FrameReader::Filled(std::size_t bytes) {
  if (in_payload_ && buffered() == 0) {
    target_ = target_.subspan(bytes);
  } else {
    filled_ += bytes;
  }
}

void FrameReader::SetTarget(std::span<std::byte> target) {
  target_ = target.first(payload_bytes_);
  in_payload_ = true;
}

Status FrameReader::ParseHeader() {
  Reader reader({buffer_.data() + parsed_, kFrameHeaderBytes});
  const auto magic = reader.Take<std::uint32_t>();
  const auto type = reader.Take<std::uint8_t>();
  const auto flags = reader.Take<std::uint8_t>();
  const auto reserved = reader.Take<std::uint16_t>();
  const auto body_bytes = reader.Take<std::uint32_t>();
  if (magic != kMagic) return {ErrorKind::kBadInput, "the other side does not speak tfos feed"};
  if (type < static_cast<std::uint8_t>(MessageType::kChallenge) ||
      type > static_cast<std::uint8_t>(MessageType::kSuperseded) || flags != 0 || reserved != 0) {
    return {ErrorKind::kBadInput, fmt::format("unknown message (type {}, flags {})", type, flags)};
  }
  type_ = static_cast<MessageType>(type);
  std::uint64_t payload_limit = 0;
  bool has_payload = true;
  head_bytes_ = 0;
  if (type_ == MessageType::kData) {
    head_bytes_ = kDataHeadBytes;
    payload_limit = limits_.data;
  } else if (type_ == MessageType::kResult) {
    head_bytes_ = kResultHeadBytes;
    payload_limit = limits_.result;
  } else if (type_ == MessageType::kError) {
    payload_limit = limits_.error;
  } else {
    has_payload = false;
    head_bytes_ = body_bytes;
  }
  if (has_payload ? body_bytes < head_bytes_ || body_bytes - head_bytes_ > payload_limit
                  : body_bytes > kPlainBodyLimit) {
    return {ErrorKind::kBadInput,
            fmt::format("a {} message of {} bytes", MessageTypeName(type_), body_bytes)};
  }
  payload_bytes_ = body_bytes - head_bytes_;
  return {};
}

Result<FrameReader::Event> FrameReader::Next() {
  if (in_payload_) {
    const std::size_t count = std::min(buffered(), target_.size());
    if (count > 0) {
      std::memcpy(target_.data(), buffer_.data() + parsed_, count);
      parsed_ += count;
      target_ = target_.subspan(count);
    }
    if (!target_.empty()) return Event::kNone;
    in_payload_ = false;
    in_frame_ = false;
    body_ = {};
    return Event::kPayloadEnd;
  }
  if (!in_frame_) {
    if (buffered() < kFrameHeaderBytes) return Event::kNone;
    TFOS_RETURN_IF_ERROR(ParseHeader());
    parsed_ += kFrameHeaderBytes;
    in_frame_ = true;
  }
  if (buffered() < head_bytes_) return Event::kNone;
  body_ = std::span(buffer_).subspan(parsed_, head_bytes_);
  parsed_ += head_bytes_;
  const bool payload =
      type_ == MessageType::kData || type_ == MessageType::kResult || type_ == MessageType::kError;
  if (payload) return Event::kPayloadBegin;
  in_frame_ = false;
  return Event::kMessage;
}

}  // namespace tfos::feed
