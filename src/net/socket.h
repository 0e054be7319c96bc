#ifndef TFOS_NET_SOCKET_H_
#define TFOS_NET_SOCKET_H_

#include <netdb.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/process/unique_fd.h"
#include "base/time/wait.h"
#include "net/resolve.h"
#include "tfos/status.h"

// The few socket calls of what moves data. All sockets are non-blocking and closed on exec; a write
// to a closed peer is an error and never a signal.

namespace tfos::net {

/// None when nobody listens there: another host, another network namespace, or it is gone.
Result<std::optional<UniqueFd>> ConnectUnix(std::string_view name, const Wait& wait);
/// Each address of a name but the last gets its share of the time, 10 s at most: a network may drop
/// what goes to one of them. With `unanswered_limit` a host that is gone is noticed once what was
/// sent to it has been unanswered so long. Only for a peer that reads at once whatever comes: it
/// counts against one as well that is there and does not read.
Result<UniqueFd> ConnectTcp(const std::string& host, std::uint16_t port, const Wait& wait,
                            std::optional<std::chrono::milliseconds> unanswered_limit = {},
                            Lookup lookup = ::getaddrinfo);

/// Small messages leave at once, and a host that vanished is noticed.
void TuneTcp(int fd);

/// What one call moved.
struct Transfer {
  std::size_t bytes = 0;
  bool blocked = false;  ///< Nothing now: poll.
  bool ended = false;    ///< Receive only: the peer has closed.
};

/// Sends what the socket takes of `first` and then `second`. `pass` goes along with the first byte
/// when it is valid (Unix sockets only).
Result<Transfer> Send(int fd, std::span<const std::byte> first, std::span<const std::byte> second,
                      int pass = -1);
/// Receives into `space`, which is not empty. A descriptor that comes along replaces `*passed`;
/// where `passed` is null it is refused by the kernel.
Result<Transfer> Receive(int fd, std::span<std::byte> space, UniqueFd* passed);

}  // namespace tfos::net

#endif  // TFOS_NET_SOCKET_H_
