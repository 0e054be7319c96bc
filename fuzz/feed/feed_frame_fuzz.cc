// Frames of the feed protocol, cut as the first byte says. Besides not crashing: what was read
// must be the same however the stream was cut.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "feed/wire/frame.h"
#include "feed/wire/frame_reader.h"

namespace {

using tfos::Result;
using tfos::feed::FrameReader;
using tfos::feed::MessageType;

void ParseAs(MessageType type, std::span<const std::byte> body) {
  switch (type) {
    case MessageType::kOpen:
      // What was parsed is written the same way again.
      if (const auto open = tfos::feed::ParseOpen(body); open.ok()) {
        const std::string frame = tfos::feed::Encode(*open);
        if (frame.size() != tfos::feed::kFrameHeaderBytes + body.size() ||
            std::memcmp(frame.data() + tfos::feed::kFrameHeaderBytes, body.data(), body.size()) !=
                0) {
          std::abort();
        }
      }
      break;
    case MessageType::kOpened:
      (void)tfos::feed::ParseOpened(body).ok();
      break;
    case MessageType::kChunk:
      (void)tfos::feed::ParseChunk(body).ok();
      break;
    case MessageType::kData:
      (void)tfos::feed::ParseDataHead(body).ok();
      break;
    case MessageType::kCount:
      (void)tfos::feed::ParseCount(body).ok();
      break;
    case MessageType::kCounted:
      if (const auto counted = tfos::feed::ParseCounted(body); counted.ok()) {
        const std::string frame = tfos::feed::Encode(*counted);
        if (frame.size() != tfos::feed::kFrameHeaderBytes + body.size() ||
            std::memcmp(frame.data() + tfos::feed::kFrameHeaderBytes, body.data(), body.size()) !=
                0) {
          std::abort();
        }
      }
      break;
    case MessageType::kEnded:
      (void)tfos::feed::ParseEnded(body).ok();
      break;
    case MessageType::kCredit:
      (void)tfos::feed::ParseCredit(body).ok();
      break;
    case MessageType::kStop:
    case MessageType::kProgress:
      break;
    default:
      (void)tfos::feed::ParseU64(body).ok();
  }
}

/// Everything read, one message after the other, and how it ended.
std::string Read(std::span<const std::byte> stream, std::size_t step) {
  FrameReader reader;
  reader.set_limits({.data = 4096, .result = 4096, .error = 4096});
  std::string log;
  std::string payload;
  while (!stream.empty()) {
    const std::span<std::byte> space = reader.Space();
    const std::size_t count = std::min({space.size(), stream.size(), step});
    std::memcpy(space.data(), stream.data(), count);
    reader.Filled(count);
    stream = stream.subspan(count);
    for (;;) {
      const Result<FrameReader::Event> event = reader.Next();
      if (!event.ok()) return log + "refused";
      if (*event == FrameReader::Event::kNone) break;
      if (*event == FrameReader::Event::kPayloadEnd) {
        log += payload;
        continue;
      }
      ParseAs(reader.type(), reader.body());
      log += static_cast<char>(reader.type());
      log.append(reinterpret_cast<const char*>(reader.body().data()), reader.body().size());
      if (*event == FrameReader::Event::kPayloadBegin) {
        payload.assign(reader.payload_bytes(), '\0');
        reader.SetTarget(std::as_writable_bytes(std::span(payload)));
      }
    }
  }
  return log;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto stream = std::as_bytes(std::span(data + 1, size - 1));
  if (Read(stream, std::size_t{1} + data[0]) != Read(stream, size)) std::abort();
  return 0;
}
