#ifndef TFOS_CONTROL_LINK_TUNNEL_RELAY_H_
#define TFOS_CONTROL_LINK_TUNNEL_RELAY_H_

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>

#include "control/link/stream/async_stream.h"

namespace tfos::control {

/// Passes the beginning of what one stream says on to another. False: it can't, and so the rest is
/// not passed on either.
using PassBeginning =
    std::function<boost::asio::awaitable<bool>(AsyncStream& from, AsyncStream& to)>;

/// Passes bytes on between two streams, both ways, until each has ended or one is broken. Closes
/// both then. Where one is broken or was cut, the other one is reset, so that nobody takes a part
/// of what was said for all of it. Nothing else may read or write them meanwhile. `pass_back`,
/// where there is one, passes on what `other` says first. Errors: throws what a library throws,
/// such as std::bad_alloc; the streams are closed then, too, and kept until nothing uses them.
boost::asio::awaitable<void> Relay(std::shared_ptr<AsyncStream> one,
                                   std::shared_ptr<AsyncStream> other,
                                   PassBeginning pass_back = {});

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_TUNNEL_RELAY_H_
