// Messages of the parameter server protocol. Besides not crashing: what is accepted is written the
// same way again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "parameter_server/model/layout.h"
#include "parameter_server/wire/protocol.h"

namespace {

using namespace tfos::parameter_server;  // NOLINT(google-build-using-namespace)

void CheckSame(const std::string& message, std::span<const std::byte> body) {
  if (message.size() != kHeaderBytes + body.size() ||
      std::memcmp(message.data() + kHeaderBytes, body.data(), body.size()) != 0) {
    std::abort();
  }
}

void ParseAs(MessageType type, std::span<const std::byte> body) {
  switch (type) {
    case MessageType::kOpen:
      if (const auto open = ParseOpen(body); open.ok()) {
        CheckSame(Encode(*open), body);
        // What a server makes of it.
        if (open->rule.Check(open->share).ok()) (void)Layout::Of(open->share).ok();
      }
      break;
    case MessageType::kOpened:
      if (const auto opened = ParseOpened(body); opened.ok()) CheckSame(Encode(*opened), body);
      break;
    case MessageType::kPush:
    case MessageType::kRead:
    case MessageType::kWrite:
    case MessageType::kValues:
      if (const auto range = ParseRange(body); range.ok()) CheckSame(Encode(type, *range), body);
      break;
    case MessageType::kWaiting:
      if (const auto waiting = ParseWaiting(body); waiting.ok()) CheckSame(Encode(*waiting), body);
      break;
    case MessageType::kFailed:
      (void)ParseFailed(body).ok();
      break;
    default:
      if (const auto version = ParseVersion(body); version.ok()) {
        CheckSame(EncodeVersion(type, *version), body);
      }
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (size < kHeaderBytes) return 0;
  if (const auto header = ParseHeader(bytes.first<kHeaderBytes>()); header.ok()) {
    ParseAs(header->type, bytes.subspan(kHeaderBytes));
  }
  return 0;
}
