#include "net/stream.h"

#include <poll.h>

namespace tfos::net {

Status SendAll(Stream& stream, std::span<const std::byte> data, const Wait& wait) {
  while (!data.empty()) {
    TFOS_ASSIGN_OR_RETURN(const Transfer sent, stream.Send({}, data));
    data = data.subspan(sent.bytes);
    if (!sent.blocked) continue;
    TFOS_ASSIGN_OR_RETURN(const short ready, Poll(stream.fd(), POLLOUT, wait));
    if (ready == 0) return {ErrorKind::kRetryLater, "no answer within the deadline"};
  }
  return {};
}

}  // namespace tfos::net
