#ifndef TFOS_CONTROL_LINK_RELAY_H_
#define TFOS_CONTROL_LINK_RELAY_H_

#include <boost/asio/awaitable.hpp>

#include "control/link/stream/async_stream.h"

namespace tfos::control {

/// Passes bytes on between two streams, both ways, until each has ended or one is broken. Closes
/// both then. Nothing else may read or write them meanwhile; both outlive it.
boost::asio::awaitable<void> Relay(AsyncStream& one, AsyncStream& other);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_RELAY_H_
