#include "net/stream.h"

#include <poll.h>
#include <sys/socket.h>

#include "net/poll.h"

namespace tfos::net {
namespace {

Status TooLate() { return {ErrorKind::kRetryLater, "no answer within the deadline"}; }

}  // namespace

Result<Transfer> Stream::EndSending() {
  // Nothing is to be told where the connection is gone.
  static_cast<void>(::shutdown(fd(), SHUT_WR));
  return Transfer{};
}

Status SendAll(Stream& stream, std::span<const std::byte> data, const Wait& wait) {
  while (!data.empty()) {
    TFOS_ASSIGN_OR_RETURN(const Transfer sent, stream.Send({}, data));
    data = data.subspan(sent.bytes);
    if (!sent.blocked) continue;
    TFOS_ASSIGN_OR_RETURN(const short ready, Poll(stream.fd(), POLLOUT, wait));
    if (ready == 0) return TooLate();
  }
  return {};
}

Status ReceiveAll(Stream& stream, std::span<std::byte> room, const Wait& wait) {
  while (!room.empty()) {
    TFOS_ASSIGN_OR_RETURN(const Transfer got, stream.Receive(room));
    if (got.ended) return {ErrorKind::kReconnect, "the other end closed the connection"};
    room = room.subspan(got.bytes);
    if (!got.blocked) continue;
    TFOS_ASSIGN_OR_RETURN(const short ready, Poll(stream.fd(), POLLIN, wait));
    if (ready == 0) return TooLate();
  }
  return {};
}

}  // namespace tfos::net
