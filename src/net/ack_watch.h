#ifndef TFOS_NET_ACK_WATCH_H_
#define TFOS_NET_ACK_WATCH_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/time/deadline.h"
#include "tfos/status.h"

namespace tfos::net {

/// A host that has acknowledged nothing for this long is gone, or the network to it is cut. The
/// keepalive of TuneTcp takes as long where nothing is on its way.
inline constexpr std::chrono::seconds kUnacknowledgedLimit{30};

/// Often enough to look at that limit, for a thread that serves many connections.
inline constexpr std::chrono::seconds kAckInterval{2};

/// What the kernel knows of a TCP connection.
struct TcpProgress {
  /// Bytes are on their way, or the question whether the peer has room for more.
  bool awaits_acknowledgement = false;
  std::uint64_t acknowledged_bytes = 0;  ///< Since the connection was made.
  Clock::Duration since_last{};          ///< Since the last acknowledgement, of whatever.
};

/// None for a socket of another kind.
std::optional<TcpProgress> ProgressOf(int socket);

/// Whether the host at the other end of a connection is still there: looks at what its kernel
/// acknowledges. Other than with TCP_USER_TIMEOUT, a peer that does not read for any time is not
/// mistaken for one that is gone.
///
/// Owner and lifetime: of the connection's owner; a value. Threads: one at a time.
/// Errors: none; a limit that has passed is an answer.
class AckWatch {
 public:
  explicit AckWatch(Clock::Duration limit = kUnacknowledgedLimit) : limit_(limit) {}

  /// Called again and again while the connection is waited for: whether the limit has passed.
  bool IsCut(const TcpProgress& progress, Clock::TimePoint now);

 private:
  Clock::Duration limit_;
  std::optional<Clock::TimePoint> since_;  // of waiting, without progress
  std::uint64_t acknowledged_bytes_ = 0;
};

/// The same of a socket, now: reconnect, in words to follow the peer's name, if it is cut off.
Status CheckAcknowledged(AckWatch& watch, int socket);

}  // namespace tfos::net

#endif  // TFOS_NET_ACK_WATCH_H_
