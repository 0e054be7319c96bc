#include "feed/wire/outbox.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "net/socket.h"

namespace tfos::feed {

Result<Outbox::Flushed> Outbox::Flush(net::Stream& stream) {
  Flushed flushed;
  while (!frames_.empty()) {
    OutFrame& frame = frames_.front();
    const auto bytes = std::as_bytes(std::span(frame.bytes));
    const std::size_t of_bytes = std::min(sent_, bytes.size());
    const std::span<const std::byte> head = bytes.subspan(of_bytes);
    const std::span<const std::byte> result =
        std::as_const(frame.result).bytes().subspan(sent_ - of_bytes);
    // What was blocked is given once more: the first frame stays until it is out.
    TFOS_ASSIGN_OR_RETURN(const net::Transfer transfer,
                          frame.pass.valid()
                              ? net::Send(stream.fd(), head, result, frame.pass.get())
                              : stream.Send(head, result));
    if (transfer.blocked) {
      flushed.blocked = true;
      return flushed;
    }
    flushed.moved = true;
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
