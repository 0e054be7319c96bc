#ifndef TFOS_NET_HANDSHAKE_REACH_H_
#define TFOS_NET_HANDSHAKE_REACH_H_

#include <functional>

#include "base/time/wait.h"
#include "tfos/status.h"

namespace tfos::net {

/// One attempt to reach another member. It sets `connected` once something listens there: what
/// fails from then on is more than that the other end is not there yet.
using Attempt = std::function<Status(bool& connected)>;

/// Reaches a member that may come later: its port is held from the start, and it listens once its
/// program has come so far. Names and routes may take a while, too. So it tries until the deadline.
/// A handshake that fails ends it at once. But it tries on while the other end says that it is not
/// that far yet (retry later), and a few times when the connection closes: the other end gives up
/// on one that gets no processor, and can't say so.
///
/// Threads: any; it waits. Errors: the last attempt's; what `wait.check` says.
Status Reach(const Wait& wait, const Attempt& attempt);

}  // namespace tfos::net

#endif  // TFOS_NET_HANDSHAKE_REACH_H_
