#include "feed/wire/outbox.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "net/socket.h"

namespace tfos::feed {

Result<Outbox::Flushed> Outbox::Flush(int fd) {
  Flushed flushed;
  while (!frames_.empty()) {
    OutFrame& frame = frames_.front();
    const auto bytes = std::as_bytes(std::span(frame.bytes));
    const std::size_t of_bytes = std::min(sent_, bytes.size());
    TFOS_ASSIGN_OR_RETURN(
        const net::Transfer transfer,
        net::Send(fd, bytes.subspan(of_bytes),
                  std::as_const(frame.result).bytes().subspan(sent_ - of_bytes), frame.pass.get()));
    if (transfer.blocked) {
      flushed.blocked = true;
      return flushed;
    }
    frame.pass.Reset();
    sent_ += transfer.bytes;
    if (sent_ < frame.size()) continue;
    flushed.result_bytes += frame.result.size();
    frames_.pop_front();
    sent_ = 0;
  }
  return flushed;
}

}  // namespace tfos::feed
