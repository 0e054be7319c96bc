#include "parameter_server/wire/protocol.h"

#include <utility>

#include "base/format.h"
#include "base/memory/bytes.h"

namespace tfos::parameter_server {
namespace {

constexpr std::uint32_t kAnyStaleness = 0xffffffff;

void AppendText(std::string_view text, std::string& to) {
  text = text.substr(0, kLongestText);
  AppendBytes(static_cast<std::uint16_t>(text.size()), to);
  to.append(text);
}

std::string WithHeader(MessageType type, std::string_view body) {
  std::string message;
  AppendBytes(type, message);
  AppendBytes(static_cast<std::uint32_t>(body.size()), message);
  message.append(body);
  return message;
}

/// A text, which its length comes before.
std::string TakeText(ByteReader& body) {
  const auto bytes = body.Take<std::uint16_t>();
  if (bytes > kLongestText) body.Refuse();
  return body.TakeText(bytes);
}

/// OK when all was taken and nothing was missing.
Status Finish(const ByteReader& body, std::string_view what) {
  if (body.complete()) return {};
  return {ErrorKind::kBadInput, fmt::format("a message {} that makes no sense", what)};
}

void AppendRule(const Rule& rule, std::string& to) {
  AppendBytes(rule.combiner, to);
  AppendBytes(static_cast<std::uint8_t>(rule.nesterov), to);
  AppendBytes(rule.workers, to);
  for (const double number :
       {rule.learning_rate, rule.momentum, rule.beta_1, rule.beta_2, rule.epsilon}) {
    AppendBytes(number, to);
  }
}

Rule TakeRule(ByteReader& pieces) {
  Rule rule;
  rule.combiner = pieces.Take<Combiner>();
  rule.nesterov = pieces.TakeFlag();
  rule.workers = pieces.Take<std::uint32_t>();
  for (double* number :
       {&rule.learning_rate, &rule.momentum, &rule.beta_1, &rule.beta_2, &rule.epsilon}) {
    *number = pieces.Take<double>();
  }
  return rule;
}

}  // namespace

Result<Header> ParseHeader(std::span<const std::byte, kHeaderBytes> bytes) {
  ByteReader pieces(bytes);
  Header header;
  header.type = pieces.Take<MessageType>();
  header.bytes = pieces.Take<std::uint32_t>();
  const auto type = static_cast<std::uint32_t>(header.type);
  const bool known = (type >= static_cast<std::uint32_t>(MessageType::kOpen) &&
                      type <= static_cast<std::uint32_t>(MessageType::kStart)) ||
                     (type >= static_cast<std::uint32_t>(MessageType::kOpened) &&
                      type <= static_cast<std::uint32_t>(MessageType::kFailed));
  if (!known || header.bytes > kMostBodyBytes) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a message of type {} and {} bytes", type, header.bytes));
  }
  return header;
}

std::string Encode(const Open& open) {
  std::string body;
  AppendRule(open.rule, body);
  AppendBytes(static_cast<std::uint8_t>(open.starts), body);
  AppendBytes(open.gives, body);
  AppendBytes(open.link, body);
  AppendBytes(open.staleness.value_or(kAnyStaleness), body);
  AppendBytes(open.region_bytes, body);
  AppendText(open.name, body);
  AppendBytes(static_cast<std::uint32_t>(open.share.size()), body);
  for (const Variable& variable : open.share) {
    AppendBytes(variable.dtype, body);
    AppendBytes(variable.elements, body);
    AppendBytes(static_cast<std::uint8_t>(variable.averaged), body);
  }
  return WithHeader(MessageType::kOpen, body);
}

Result<Open> ParseOpen(std::span<const std::byte> body) {
  constexpr std::size_t kVariableBytes = sizeof(DType) + sizeof(std::uint64_t) + 1;
  ByteReader pieces(body);
  Open open;
  open.rule = TakeRule(pieces);
  open.starts = pieces.TakeFlag();
  open.gives = pieces.Take<std::uint64_t>();
  open.link = pieces.Take<std::uint64_t>();
  if (const auto staleness = pieces.Take<std::uint32_t>(); staleness != kAnyStaleness) {
    open.staleness = staleness;
  }
  open.region_bytes = pieces.Take<std::uint64_t>();
  open.name = TakeText(pieces);
  const auto count = pieces.Take<std::uint32_t>();
  if (pieces.left() != count * kVariableBytes) pieces.Refuse();
  while (pieces.left() > 0) {
    const auto dtype = pieces.Take<DType>();
    const auto elements = pieces.Take<std::uint64_t>();
    const bool averaged = pieces.TakeFlag();
    open.share.push_back({.dtype = dtype, .elements = elements, .averaged = averaged});
  }
  TFOS_RETURN_IF_ERROR(Finish(pieces, "OPEN"));
  return open;
}

std::string Encode(const Opened& opened) {
  std::string body;
  AppendBytes(opened.version, body);
  AppendBytes(opened.pushes, body);
  AppendBytes(opened.combined, body);
  return WithHeader(MessageType::kOpened, body);
}

Result<Opened> ParseOpened(std::span<const std::byte> body) {
  ByteReader pieces(body);
  Opened opened;
  opened.version = pieces.Take<std::uint64_t>();
  opened.pushes = pieces.Take<std::uint64_t>();
  opened.combined = pieces.Take<std::uint64_t>();
  if (opened.combined % kAlignment != 0) pieces.Refuse();
  TFOS_RETURN_IF_ERROR(Finish(pieces, "OPENED"));
  return opened;
}

std::string Encode(MessageType type, const Range& range) {
  std::string body;
  AppendBytes(range.part, body);
  AppendBytes(static_cast<std::uint8_t>(range.data_follow), body);
  AppendBytes(range.begin, body);
  AppendBytes(range.bytes, body);
  AppendBytes(range.version, body);
  return WithHeader(type, body);
}

Result<Range> ParseRange(std::span<const std::byte> body) {
  ByteReader pieces(body);
  Range range;
  range.part = pieces.Take<std::uint8_t>();
  range.data_follow = pieces.TakeFlag();
  range.begin = pieces.Take<std::uint64_t>();
  range.bytes = pieces.Take<std::uint64_t>();
  range.version = pieces.Take<std::uint64_t>();
  TFOS_RETURN_IF_ERROR(Finish(pieces, "about a range"));
  if (range.data_follow && range.bytes > kMostDataBytes) {
    return Status(ErrorKind::kBadInput, fmt::format("{} bytes in one message", range.bytes));
  }
  return range;
}

std::string EncodeVersion(MessageType type, std::uint64_t version) {
  std::string body;
  AppendBytes(version, body);
  return WithHeader(type, body);
}

Result<std::uint64_t> ParseVersion(std::span<const std::byte> body) {
  ByteReader pieces(body);
  const auto version = pieces.Take<std::uint64_t>();
  TFOS_RETURN_IF_ERROR(Finish(pieces, "with a version"));
  return version;
}

std::string Encode(const Waiting& waiting) {
  std::string body;
  AppendBytes(waiting.clock, body);
  AppendBytes(waiting.other_clock, body);
  AppendText(waiting.name, body);
  return WithHeader(MessageType::kWaiting, body);
}

Result<Waiting> ParseWaiting(std::span<const std::byte> body) {
  ByteReader pieces(body);
  Waiting waiting;
  waiting.clock = pieces.Take<std::uint64_t>();
  waiting.other_clock = pieces.Take<std::uint64_t>();
  waiting.name = TakeText(pieces);
  TFOS_RETURN_IF_ERROR(Finish(pieces, "WAITING"));
  return waiting;
}

// The format page lists these numbers.
static_assert(static_cast<int>(ErrorKind::kRetryLater) == 0);
static_assert(static_cast<int>(ErrorKind::kReconnect) == 1);
static_assert(static_cast<int>(ErrorKind::kUnsupported) == 2);
static_assert(static_cast<int>(ErrorKind::kSuperseded) == 3);
static_assert(static_cast<int>(ErrorKind::kBadInput) == 4);
static_assert(static_cast<int>(ErrorKind::kBug) == 5);
static_assert(static_cast<int>(ErrorKind::kNoResources) == 6);
static_assert(static_cast<int>(ErrorKind::kInterrupted) == 7);
constexpr auto kLastErrorKind = ErrorKind::kInterrupted;

std::string Encode(const Failed& failed) {
  std::string body;
  AppendBytes(static_cast<std::uint8_t>(failed.kind), body);
  AppendText(failed.text, body);
  return WithHeader(MessageType::kFailed, body);
}

Result<Failed> ParseFailed(std::span<const std::byte> body) {
  ByteReader pieces(body);
  Failed failed;
  const auto kind = pieces.Take<std::uint8_t>();
  failed.kind = kind <= static_cast<std::uint8_t>(kLastErrorKind) ? static_cast<ErrorKind>(kind)
                                                                  : ErrorKind::kBug;
  failed.text = TakeText(pieces);
  TFOS_RETURN_IF_ERROR(Finish(pieces, "FAILED"));
  return failed;
}

}  // namespace tfos::parameter_server
