#include "testing/send_all.h"

#include <poll.h>

#include "net/poll.h"
#include "net/socket.h"

namespace tfos::testing {
namespace {

Status Await(int socket, short event, const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(socket, event, wait));
  if (ready == 0) return {ErrorKind::kRetryLater, "no answer within the deadline"};
  return {};
}

}  // namespace

Status SendAll(int socket, std::span<const std::byte> data, const Wait& wait) {
  while (!data.empty()) {
    TFOS_ASSIGN_OR_RETURN(const net::Transfer sent, net::Send(socket, data, {}));
    data = data.subspan(sent.bytes);
    if (sent.blocked) TFOS_RETURN_IF_ERROR(Await(socket, POLLOUT, wait));
  }
  return {};
}

Status ReceiveAll(int socket, std::span<std::byte> room, const Wait& wait) {
  while (!room.empty()) {
    TFOS_ASSIGN_OR_RETURN(const net::Transfer got, net::Receive(socket, room, nullptr));
    if (got.ended) return {ErrorKind::kReconnect, "the other end closed the connection"};
    room = room.subspan(got.bytes);
    if (got.blocked) TFOS_RETURN_IF_ERROR(Await(socket, POLLIN, wait));
  }
  return {};
}

}  // namespace tfos::testing
