#include "collective/mesh/link.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/format.h"
#include "base/memory/bytes.h"
#include "collective/mesh/link_frame.h"

namespace tfos::collective {
namespace {

constexpr std::size_t kDataLimit = std::size_t{1} << 20;
/// Stays in a core's cache while it is received and added up.
constexpr std::size_t kStagingBytes = std::size_t{256} << 10;
/// Beyond this size, a separate call to learn where the next elements begin is worth its cost.
constexpr std::size_t kWorthACall = std::size_t{16} << 10;
constexpr std::size_t kWaitingBytes = 12;
constexpr std::size_t kLeftBytes = 8;

}  // namespace

Link::Link(std::unique_ptr<net::Stream> stream, std::string peer)
    : peer_(std::move(peer)), staging_(MakeStaging()), stream_(std::move(stream)) {}

AlignedBuffer Link::MakeStaging() {
  AlignedBuffer staging(kStagingBytes);
  if (staging.size() == 0) throw std::bad_alloc();
  return staging;
}

void Link::Begin(const Operation& operation) {
  operation_ = operation;
  announced_ = agreed_ = receive_wanted_ = false;
  waits_for_.reset();
}

void Link::Announce() {
  if (!announced_) AppendFrame(FrameType::kOperation, operation_.Encode(), head_);
  announced_ = true;
}

void Link::Send(std::span<const std::byte> data) {
  data_ = data;
  Announce();
  QueueData();
}

void Link::QueueData() {
  frame_ = data_.first(std::min(data_.size(), kDataLimit));
  if (!frame_.empty()) AppendHeader(FrameType::kData, frame_.size(), head_);
}

Status Link::Push() {
  TFOS_RETURN_IF_ERROR(broken_);
  while (sending()) {
    const auto head = std::as_bytes(std::span(head_)).subspan(head_sent_);
    const Result<net::Transfer> sent = stream_->Send(head, frame_);
    if (!sent.ok()) return OnBroken(sent.status());
    if (sent->blocked) return {};
    moved_ += sent->bytes;
    const std::size_t of_head = std::min(head.size(), sent->bytes);
    const std::size_t of_data = sent->bytes - of_head;
    head_sent_ += of_head;
    if (head_sent_ == head_.size()) {
      head_.clear();
      head_sent_ = 0;
    }
    frame_ = frame_.subspan(of_data);
    data_ = data_.subspan(of_data);
    if (head_.empty() && frame_.empty() && !data_.empty()) QueueData();
  }
  return {};
}

void Link::Receive(std::span<std::byte> room, std::optional<DType> add) {
  room_ = room;
  add_ = add;
  receive_wanted_ = true;
}

Status Link::Pull() {
  TFOS_RETURN_IF_ERROR(broken_);
  while (true) {
    bool more = true;
    // What is staged behind it is for later, also that the peer then gave up.
    while (more && receiving()) {
      TFOS_ASSIGN_OR_RETURN(more, TakeStaged());
    }
    if (!receiving()) return {};
    // Large payloads go where they belong at once.
    const bool direct =
        payload_left_ > 0 && !add_ && staged_begin_ == staged_end_ && !room_.empty();
    Compact();
    std::span<std::byte> space = StagingRoom();
    if (direct) {
      space = room_.first(std::min<std::size_t>(room_.size(), payload_left_));
    } else if (!add_ && payload_left_ == 0 && room_.size() > kWorthACall && !beside_socket()) {
      if (const std::size_t lacking = LackingOfFrame(); lacking != 0) {
        space = space.first(std::min(space.size(), lacking));
      }
    }
    if (space.empty()) return {};
    const Result<net::Transfer> received = stream_->Receive(space);
    if (!received.ok()) {
      broken_ = LastWords(received.status());
      return broken_;
    }
    if (received->ended) return Gone({});
    if (received->blocked) return {};
    moved_ += received->bytes;
    if (direct) {
      room_ = room_.subspan(received->bytes);
      payload_left_ -= static_cast<std::uint32_t>(received->bytes);
    } else {
      staged_end_ += received->bytes;
    }
  }
}

void Link::Compact() {
  if (staged_begin_ == 0) return;
  std::byte* const staging = staging_.bytes().data();
  std::memmove(staging, staging + staged_begin_, staged_end_ - staged_begin_);
  staged_end_ -= std::exchange(staged_begin_, 0);
}

std::size_t Link::LackingOfFrame() {
  const std::span<const std::byte> staged = Staged();
  if (staged.size() < kHeaderBytes) return kHeaderBytes - staged.size();
  const std::size_t whole = FrameHeader::Of(staged).frame_bytes();
  return whole - std::min(whole, staged.size());
}

Result<bool> Link::TakeStaged() {
  if (staged_begin_ == staged_end_) return false;
  return payload_left_ > 0 ? TakePayload() : TakeFrame();
}

Result<bool> Link::TakePayload() {
  const std::span<std::byte> staged = Staged();
  std::size_t bytes = std::min({staged.size(), std::size_t{payload_left_}, room_.size()});
  if (add_) {
    // Only if an earlier step, which did not add, ended within an element.
    if (payload_left_ % ElementBytes(*add_) != 0) {
      return Status(ErrorKind::kBadInput, fmt::format("{} sent a part of an element", peer_));
    }
    bytes -= bytes % ElementBytes(*add_);
  }
  if (bytes == 0) return false;
  if (add_) {
    AddElements(*add_, staged.first(bytes), room_.first(bytes));
  } else {
    std::memcpy(room_.data(), staged.data(), bytes);
  }
  room_ = room_.subspan(bytes);
  payload_left_ -= static_cast<std::uint32_t>(bytes);
  staged_begin_ += bytes;
  return true;
}

Result<bool> Link::TakeFrame() {
  const std::span<std::byte> staged = Staged();
  if (staged.size() < kHeaderBytes) return false;
  const FrameHeader header = FrameHeader::Of(staged);
  const std::size_t length = header.length;
  if (header.type == FrameType::kData) {
    if (!receive_wanted_ || !agreed_) {
      return Status(ErrorKind::kBadInput, fmt::format("{} sent elements of no operation", peer_));
    }
    if (room_.empty()) return false;  // Of the next step.
    if (length == 0 || length > kDataLimit || (add_ && length % ElementBytes(*add_) != 0)) {
      return Status(ErrorKind::kBadInput,
                    fmt::format("{} sent {} bytes in a frame", peer_, length));
    }
    payload_left_ = static_cast<std::uint32_t>(length);
    staged_begin_ += kHeaderBytes;
    return true;
  }
  if (length > kControlLimit) {
    return Status(ErrorKind::kBadInput, fmt::format("{} sent a frame of {} bytes", peer_, length));
  }
  if (staged.size() < header.frame_bytes()) return false;
  const std::span<const std::byte> body = staged.subspan(kHeaderBytes, length);
  switch (header.type) {
    case FrameType::kOperation:
      if (receive_wanted_ && agreed_ && !room_.empty()) {
        return Status(ErrorKind::kBadInput,
                      fmt::format("{} began another operation before it had sent all of {}", peer_,
                                  operation_.Describe()));
      }
      if (!receive_wanted_ || agreed_) return false;  // Of a later one.
      TFOS_RETURN_IF_ERROR(OnOperation(body));
      break;
    case FrameType::kAbort:
      return Status(
          ErrorKind::kReconnect,
          fmt::format("{} gave up: {}", peer_,
                      std::string_view(reinterpret_cast<const char*>(body.data()), body.size())));
    case FrameType::kWaiting: {
      if (length != kWaitingBytes) {
        return Status(ErrorKind::kBadInput, fmt::format("{} sent a bad frame", peer_));
      }
      ByteReader reader(body);
      const auto number = reader.Take<std::uint64_t>();
      const auto member = reader.Take<std::uint32_t>();
      if (number == operation_.number) waits_for_ = member;
      break;
    }
    case FrameType::kLeft: {
      if (length != kLeftBytes) {
        return Status(ErrorKind::kBadInput, fmt::format("{} sent a bad frame", peer_));
      }
      ByteReader reader(body);
      begun_ = reader.Take<std::uint64_t>();
      left_ = true;
      break;
    }
    default:
      return Status(ErrorKind::kBadInput, fmt::format("{} sent a frame of unknown type {}", peer_,
                                                      static_cast<std::uint32_t>(header.type)));
  }
  staged_begin_ += header.frame_bytes();
  return true;
}

Result<Operation> Link::ParseOperation(std::span<const std::byte> body) const {
  auto theirs = Operation::Parse(body);
  if (theirs.ok()) return theirs;
  return Status(theirs.status().kind(),
                fmt::format("{} sent {}", peer_, theirs.status().message()));
}

Status Link::OnOperation(std::span<const std::byte> body) {
  TFOS_ASSIGN_OR_RETURN(const Operation theirs, ParseOperation(body));
  // It belongs to an operation in which this side had nothing to receive from the peer.
  if (theirs.number < operation_.number) return {};
  if (theirs != operation_) return OtherOperation(peer_, theirs, operation_);
  agreed_ = true;
  return {};
}

void Link::TellWaiting(std::uint32_t member) {
  if (sending()) return;
  std::string body;
  AppendBytes(operation_.number, body);
  AppendBytes(member, body);
  AppendFrame(FrameType::kWaiting, body, head_);
}

void Link::TellLeft(std::uint64_t begun) {
  std::string body;
  AppendBytes(begun, body);
  AppendFrame(FrameType::kLeft, body, head_);
  told_left_ = true;
}

Result<std::optional<Operation>> Link::Peek(std::uint64_t number) {
  TFOS_RETURN_IF_ERROR(broken_);
  receive_wanted_ = false;  // Frames of the next operation stay where they are.
  while (true) {
    const std::span<const std::byte> staged = Staged();
    if (staged.size() >= kHeaderBytes) {
      const FrameHeader header = FrameHeader::Of(staged);
      if (header.type == FrameType::kOperation && staged.size() >= header.frame_bytes()) {
        TFOS_ASSIGN_OR_RETURN(Operation next,
                              ParseOperation(staged.subspan(kHeaderBytes, header.length)));
        if (next.number >= number) return std::optional(std::move(next));
        staged_begin_ += header.frame_bytes();
        continue;
      }
      TFOS_ASSIGN_OR_RETURN(const bool taken, TakeFrame());
      if (taken) continue;
    }
    if (ended_) return std::optional<Operation>();
    // Looked for before what may have come earlier, beside it.
    const bool socket_ended = SocketEnded();
    Compact();
    const Result<net::Transfer> received = stream_->Receive(StagingRoom());
    if (received.ok() && received->blocked && !socket_ended) return std::optional<Operation>();
    if (received.ok() && received->bytes > 0) {
      staged_end_ += received->bytes;
      continue;
    }
    if (!left_) return LastWords(received.ok() ? Status() : received.status());
    ended_ = true;
  }
}

}  // namespace tfos::collective
