#ifndef TFOS_NET_POLL_H_
#define TFOS_NET_POLL_H_

#include "base/time/wait.h"
#include "tfos/status.h"

namespace tfos::net {

/// Waits until `fd` is ready for one of `events` (POLLIN, POLLOUT) and returns which; 0 when the
/// deadline has passed first. Errors: that of `wait`'s check, or the kernel's.
Result<short> Poll(int fd, short events, const Wait& wait);

}  // namespace tfos::net

#endif  // TFOS_NET_POLL_H_
