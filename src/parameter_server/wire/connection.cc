#include "parameter_server/wire/connection.h"

#include <algorithm>
#include <utility>

#include "net/socket.h"

namespace tfos::parameter_server {
namespace {

/// Whether data may follow a message of this type; the message says so itself.
bool MayBringData(MessageType type) {
  return type == MessageType::kPush || type == MessageType::kWrite;
}

}  // namespace

Result<net::Transfer> Connection::ReceiveInto(std::span<std::byte> room) {
  return local_ ? net::Receive(fd(), room, &passed_) : stream_->Receive(room);
}

Result<net::Transfer> Connection::SendOf(std::span<const std::byte> data) {
  return local_ ? net::Send(fd(), data, {}, pass_.get()) : stream_->Send({}, data);
}

Status Connection::Receive(const OnMessage& on_message) {
  while (true) {
    std::span<std::byte> room = header_bytes_;
    if (stage_ == Stage::kBody) room = body_;
    if (stage_ == Stage::kData) room = std::span(data_).first(data_bytes_);
    if (filled_ < room.size()) {
      TFOS_ASSIGN_OR_RETURN(const net::Transfer got, ReceiveInto(room.subspan(filled_)));
      if (got.blocked) return {};
      if (got.ended) return {ErrorKind::kReconnect, "the connection has ended"};
      filled_ += got.bytes;
      bytes_received_ += got.bytes;
      if (filled_ < room.size()) continue;
    }
    filled_ = 0;
    if (stage_ == Stage::kHeader) {
      TFOS_ASSIGN_OR_RETURN(header_, ParseHeader(header_bytes_));
      body_.resize(header_.bytes);
      stage_ = Stage::kBody;
      continue;
    }
    if (stage_ == Stage::kBody) {
      data_bytes_ = 0;
      if (MayBringData(header_.type)) {
        TFOS_ASSIGN_OR_RETURN(const Range range, ParseRange(body_));
        if (range.data_follow) data_bytes_ = range.bytes;
      }
      if (data_.size() < data_bytes_) data_.resize(data_bytes_);
      stage_ = Stage::kData;
      continue;
    }
    stage_ = Stage::kHeader;
    return on_message(header_, body_, std::span(data_).first(data_bytes_));
  }
}

void Connection::Send(std::string message, UniqueFd pass) {
  out_ += message;
  if (pass.valid()) pass_ = std::move(pass);
}

void Connection::Send(std::string message, std::span<const std::byte> data) {
  out_ += message;
  out_.append(reinterpret_cast<const char*>(data.data()), data.size());
}

Status Connection::Flush() {
  while (sending()) {
    const auto rest = std::as_bytes(std::span(out_)).subspan(sent_);
    TFOS_ASSIGN_OR_RETURN(const net::Transfer sent, SendOf(rest));
    if (sent.blocked) return {};
    pass_.Reset();
    sent_ += sent.bytes;
    bytes_sent_ += sent.bytes;
  }
  out_.clear();
  sent_ = 0;
  return {};
}

}  // namespace tfos::parameter_server
