#include "feed/outbox.h"

#include <cstddef>
#include <span>

#include "feed/socket.h"

namespace tfos::feed {

Result<Outbox::Flushed> Outbox::Flush(int fd) {
  Flushed flushed;
  while (!frames_.empty()) {
    OutFrame& frame = frames_.front();
    const auto left = std::as_bytes(std::span(frame.bytes)).subspan(sent_);
    TFOS_ASSIGN_OR_RETURN(const Transfer transfer, Send(fd, left, {}, frame.pass.get()));
    if (transfer.blocked) {
      flushed.blocked = true;
      return flushed;
    }
    frame.pass.Reset();
    sent_ += transfer.bytes;
    if (sent_ < frame.bytes.size()) continue;
    flushed.result_bytes += frame.result_bytes;
    frames_.pop_front();
    sent_ = 0;
  }
  return flushed;
}

}  // namespace tfos::feed
