#include "feed/wire/frame_reader.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"

namespace tfos::feed {

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
  const std::span<const std::byte, kFrameHeaderBytes> bytes(buffer_.data() + parsed_,
                                                            kFrameHeaderBytes);
  TFOS_ASSIGN_OR_RETURN(const FrameHeader header, ParseFrameHeader(bytes));
  type_ = header.type;
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
    head_bytes_ = header.body_bytes;
  }
  if (has_payload
          ? header.body_bytes < head_bytes_ || header.body_bytes - head_bytes_ > payload_limit
          : header.body_bytes > kPlainBodyLimit) {
    return {ErrorKind::kBadInput,
            fmt::format("a {} message of {} bytes", MessageTypeName(type_), header.body_bytes)};
  }
  payload_bytes_ = header.body_bytes - head_bytes_;
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
