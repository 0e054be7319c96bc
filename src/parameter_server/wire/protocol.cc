#include "parameter_server/wire/protocol.h"

#include <cstring>
#include <utility>

#include "base/format.h"

namespace tfos::parameter_server {
namespace {

constexpr std::uint32_t kAnyStaleness = 0xffffffff;

template <typename T>
void Append(const T& value, std::string& to) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendText(std::string_view text, std::string& to) {
  text = text.substr(0, kLongestText);
  Append(static_cast<std::uint16_t>(text.size()), to);
  to.append(text);
}

std::string WithHeader(MessageType type, std::string_view body) {
  std::string message;
  Append(type, message);
  Append(static_cast<std::uint32_t>(body.size()), message);
  message.append(body);
  return message;
}

/// Takes a body to pieces; after one that is missing all are.
class Pieces {
 public:
  explicit Pieces(std::span<const std::byte> body) : rest_(body) {}

  template <typename T>
  T Take() {
    T value{};
    if (rest_.size() < sizeof(T)) {
      Refuse();
    } else {
      std::memcpy(&value, rest_.data(), sizeof(T));
      rest_ = rest_.subspan(sizeof(T));
    }
    return value;
  }

  /// Any value but 0 and 1 is wrong.
  bool TakeFlag() {
    const auto value = Take<std::uint8_t>();
    if (value > 1) Refuse();
    return value == 1;
  }

  std::string TakeText() {
    const auto bytes = Take<std::uint16_t>();
    if (bytes > kLongestText || rest_.size() < bytes) {
      Refuse();
      return {};
    }
    std::string text(reinterpret_cast<const char*>(rest_.data()), bytes);
    rest_ = rest_.subspan(bytes);
    return text;
  }

  std::size_t left() const { return rest_.size(); }
  void Refuse() {
    complete_ = false;
    rest_ = {};
  }
  Status Finish(std::string_view what) const {
    if (complete_ && rest_.empty()) return {};
    return {ErrorKind::kBadInput, fmt::format("a message {} that makes no sense", what)};
  }

 private:
  std::span<const std::byte> rest_;
  bool complete_ = true;
};

void AppendRule(const Rule& rule, std::string& to) {
  Append(rule.combiner, to);
  Append(static_cast<std::uint8_t>(rule.nesterov), to);
  Append(rule.workers, to);
  for (const double number :
       {rule.learning_rate, rule.momentum, rule.beta_1, rule.beta_2, rule.epsilon}) {
    Append(number, to);
  }
}

Rule TakeRule(Pieces& pieces) {
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
  Pieces pieces(bytes);
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
  Append(static_cast<std::uint8_t>(open.starts), body);
  Append(open.staleness.value_or(kAnyStaleness), body);
  Append(open.region_bytes, body);
  AppendText(open.name, body);
  Append(static_cast<std::uint32_t>(open.share.size()), body);
  for (const Variable& variable : open.share) {
    Append(variable.dtype, body);
    Append(variable.elements, body);
    Append(static_cast<std::uint8_t>(variable.averaged), body);
  }
  return WithHeader(MessageType::kOpen, body);
}

Result<Open> ParseOpen(std::span<const std::byte> body) {
  constexpr std::size_t kVariableBytes = sizeof(DType) + sizeof(std::uint64_t) + 1;
  Pieces pieces(body);
  Open open;
  open.rule = TakeRule(pieces);
  open.starts = pieces.TakeFlag();
  if (const auto staleness = pieces.Take<std::uint32_t>(); staleness != kAnyStaleness) {
    open.staleness = staleness;
  }
  open.region_bytes = pieces.Take<std::uint64_t>();
  open.name = pieces.TakeText();
  const auto count = pieces.Take<std::uint32_t>();
  if (pieces.left() != count * kVariableBytes) pieces.Refuse();
  while (pieces.left() > 0) {
    const auto dtype = pieces.Take<DType>();
    const auto elements = pieces.Take<std::uint64_t>();
    const bool averaged = pieces.TakeFlag();
    open.share.push_back({.dtype = dtype, .elements = elements, .averaged = averaged});
  }
  TFOS_RETURN_IF_ERROR(pieces.Finish("OPEN"));
  return open;
}

std::string Encode(MessageType type, const Range& range) {
  std::string body;
  Append(range.part, body);
  Append(static_cast<std::uint8_t>(range.data_follow), body);
  Append(range.begin, body);
  Append(range.bytes, body);
  Append(range.version, body);
  return WithHeader(type, body);
}

Result<Range> ParseRange(std::span<const std::byte> body) {
  Pieces pieces(body);
  Range range;
  range.part = pieces.Take<std::uint8_t>();
  range.data_follow = pieces.TakeFlag();
  range.begin = pieces.Take<std::uint64_t>();
  range.bytes = pieces.Take<std::uint64_t>();
  range.version = pieces.Take<std::uint64_t>();
  TFOS_RETURN_IF_ERROR(pieces.Finish("about a range"));
  if (range.data_follow && range.bytes > kMostDataBytes) {
    return Status(ErrorKind::kBadInput, fmt::format("{} bytes in one message", range.bytes));
  }
  return range;
}

std::string EncodeVersion(MessageType type, std::uint64_t version) {
  std::string body;
  Append(version, body);
  return WithHeader(type, body);
}

Result<std::uint64_t> ParseVersion(std::span<const std::byte> body) {
  Pieces pieces(body);
  const auto version = pieces.Take<std::uint64_t>();
  TFOS_RETURN_IF_ERROR(pieces.Finish("with a version"));
  return version;
}

std::string Encode(const Waiting& waiting) {
  std::string body;
  Append(waiting.clock, body);
  Append(waiting.other_clock, body);
  AppendText(waiting.name, body);
  return WithHeader(MessageType::kWaiting, body);
}

Result<Waiting> ParseWaiting(std::span<const std::byte> body) {
  Pieces pieces(body);
  Waiting waiting;
  waiting.clock = pieces.Take<std::uint64_t>();
  waiting.other_clock = pieces.Take<std::uint64_t>();
  waiting.name = pieces.TakeText();
  TFOS_RETURN_IF_ERROR(pieces.Finish("WAITING"));
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
  Append(static_cast<std::uint8_t>(failed.kind), body);
  AppendText(failed.text, body);
  return WithHeader(MessageType::kFailed, body);
}

Result<Failed> ParseFailed(std::span<const std::byte> body) {
  Pieces pieces(body);
  Failed failed;
  const auto kind = pieces.Take<std::uint8_t>();
  failed.kind = kind <= static_cast<std::uint8_t>(kLastErrorKind) ? static_cast<ErrorKind>(kind)
                                                                  : ErrorKind::kBug;
  failed.text = pieces.TakeText();
  TFOS_RETURN_IF_ERROR(pieces.Finish("FAILED"));
  return failed;
}

}  // namespace tfos::parameter_server
