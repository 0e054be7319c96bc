#ifndef TFOS_TESTING_SEND_ALL_H_
#define TFOS_TESTING_SEND_ALL_H_

#include <cstddef>
#include <span>

#include "base/time/wait.h"
#include "tfos/status.h"

// Over a bare socket, as strangers of tests speak. What a program says goes over a net::Stream.
// Errors: the system's; retry later at the deadline.

namespace tfos::testing {

/// Sends all of `data`.
Status SendAll(int socket, std::span<const std::byte> data, const Wait& wait);
/// Fills `room`. Reconnect when the other end closes before.
Status ReceiveAll(int socket, std::span<std::byte> room, const Wait& wait);

}  // namespace tfos::testing

#endif  // TFOS_TESTING_SEND_ALL_H_
