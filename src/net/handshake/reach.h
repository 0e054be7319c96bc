#ifndef TFOS_NET_HANDSHAKE_REACH_H_
#define TFOS_NET_HANDSHAKE_REACH_H_

#include <chrono>
#include <functional>

#include "base/time/wait.h"
#include "tfos/status.h"

namespace tfos::net {

/// One attempt to reach another member. It sets `connected` once something listens there: what
/// fails from then on is more than that the other end is not there yet.
using Attempt = std::function<Status(bool& connected)>;

/// Between attempts, while connections close again and again.
inline constexpr std::chrono::milliseconds kLongestPause{1000};

/// Reaches a member that may come later: its port is held from the start, and it listens once its
/// program has come so far. Names and routes may take a while, too. So it tries until the deadline.
/// A handshake that fails ends it at once. But it tries on while the other end says that it is not
/// that far yet (retry later), and when the connection closes. The other end gives up on one that
/// gets no processor, and a proxy in front of it takes a connection before there is anybody behind
/// it. Neither can say so. The pauses grow while that goes on.
///
/// Threads: any; it waits. Errors: the last attempt's; what `wait.check` says.
Status Reach(const Wait& wait, const Attempt& attempt,
             std::chrono::milliseconds longest_pause = kLongestPause);

}  // namespace tfos::net

#endif  // TFOS_NET_HANDSHAKE_REACH_H_
