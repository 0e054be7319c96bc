#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/time/wait.h"
#include "collective/mesh/link.h"
#include "collective/mesh/link_frame.h"
#include "net/poll.h"
#include "net/socket.h"

// How a link ends: what the peer has said before it went, and what it is told.

namespace tfos::collective {
namespace {

/// What was on its way when a peer ended lies in the sockets' buffers, which hold less.
constexpr std::size_t kLastWordsLimit = std::size_t{1} << 30;
/// Beside the socket an end may show before what came with it over the socket.
constexpr std::chrono::seconds kLastWordsPatience{1};

}  // namespace

Status Link::Gone(const Status& cause) const {
  std::string text = fmt::format("{} closed its connection", peer_);
  if (!cause.ok()) text += ": " + cause.ToString();
  return {ErrorKind::kReconnect, std::move(text)};
}

Result<net::Transfer> Link::ReceiveLastWords(std::span<std::byte> space) {
  if (!beside_socket()) return stream_->Receive(space);
  const Wait wait{.deadline = Deadline::After(kLastWordsPatience)};
  TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(fd(), POLLIN, wait));
  if (ready == 0) return net::Transfer{.blocked = true};
  return stream_->beside()->Receive(space);
}

bool Link::SocketEnded() const {
  pollfd entry{.fd = fd(), .events = POLLIN | POLLRDHUP, .revents = 0};
  return beside_socket() && ::poll(&entry, 1, 0) > 0;
}

Status Link::LastWords(const Status& cause) {
  if (beside_socket() && left_to_stream_.size() == 0) {
    // What comes from the socket then has nothing to do with what came beside it, nor goes where
    // the stream may be about to put something.
    left_to_stream_ = std::exchange(staging_, MakeStaging());
    staged_begin_ = staged_end_ = payload_left_ = 0;
  }
  std::size_t looked_through = 0;
  while (looked_through <= kLastWordsLimit) {
    const std::span<std::byte> staged = Staged();
    if (payload_left_ > 0 && !staged.empty()) {
      const std::size_t bytes = std::min<std::size_t>(staged.size(), payload_left_);
      payload_left_ -= static_cast<std::uint32_t>(bytes);
      staged_begin_ += bytes;
      continue;
    }
    if (staged.size() >= kHeaderBytes) {
      const FrameHeader header = FrameHeader::Of(staged);
      if (header.type == FrameType::kData) {
        payload_left_ = header.length;
        staged_begin_ += kHeaderBytes;
        continue;
      }
      if (header.length > kControlLimit) return Gone(cause);
      if (staged.size() >= header.frame_bytes()) {
        if (header.type == FrameType::kAbort) return TakeFrame().status();
        // In the middle of a frame it could say no more, but it had said what it does.
        if (header.type == FrameType::kOperation) {
          const auto theirs = Operation::Parse(staged.subspan(kHeaderBytes, header.length));
          if (theirs.ok() && theirs->number == operation_.number && *theirs != operation_) {
            return OtherOperation(peer_, *theirs, operation_);
          }
        }
        staged_begin_ += header.frame_bytes();
        continue;
      }
    }
    Compact();
    const auto received = ReceiveLastWords(StagingRoom());
    if (!received.ok() || received->ended || received->blocked) return Gone(cause);
    staged_end_ += received->bytes;
    looked_through += received->bytes;
  }
  return Gone(cause);
}

void Link::TakeWhatCame() {
  while (true) {
    const Result<bool> taken = TakeStaged();
    if (!taken.ok()) return;
    if (*taken) continue;
    Compact();
    const Result<net::Transfer> received = stream_->Receive(StagingRoom());
    if (!received.ok() || received->bytes == 0) return;
    staged_end_ += received->bytes;
  }
}

Status Link::OnBroken(const Status& cause) {
  if (told_left_ && !receiving()) {
    // A peer that has left goes when it has heard that all have. What was sent last has arrived
    // then, also if a stream beside the socket can't tell any more.
    TakeWhatCame();
    if (left_) {
      head_.clear();
      head_sent_ = 0;
      frame_ = data_ = {};
      ended_ = true;
      return {};
    }
  }
  broken_ = LastWords(cause);
  return broken_;
}

Status Link::OnHangUp() { return broken_.ok() && !ended_ ? OnBroken({}) : broken_; }

void Link::Abort(const std::string& why) {
  std::string frame;
  AppendFrame(FrameType::kAbort, std::string_view(why).substr(0, kControlLimit), frame);
  const auto bytes = std::as_bytes(std::span(frame));
  // If the peer doesn't take it, the closed connection tells it enough.
  if (beside_socket()) {
    static_cast<void>(stream_->beside()->Send(bytes, {}).ok());
  } else if (!sending()) {
    static_cast<void>(stream_->Send(bytes, {}).ok());
  }
  ::shutdown(fd(), SHUT_WR);
}

}  // namespace tfos::collective
