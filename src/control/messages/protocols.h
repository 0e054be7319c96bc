#ifndef TFOS_CONTROL_MESSAGES_PROTOCOLS_H_
#define TFOS_CONTROL_MESSAGES_PROTOCOLS_H_

#include <cstddef>

#include "net/handshake/protocol.h"

// What a connection to the coordinator begins with (docs/formats/control-protocol.md).

namespace tfos::control {

/// With the key for `join`. The connecting number is the node's.
inline constexpr net::Protocol kAgentProtocol{.magic = "tfos-agt", .version = 1, .name = "agents"};
/// With the key for `ask`.
inline constexpr net::Protocol kAskProtocol{.magic = "tfos-ask", .version = 1, .name = "questions"};
/// With the key for `operate`.
inline constexpr net::Protocol kOperateProtocol{
    .magic = "tfos-opr", .version = 1, .name = "operations"};

/// With the key for `join`. The connecting number is the node's, the generation the tunnel's.
inline constexpr net::Protocol kTunnelProtocol{
    .magic = "tfos-tun", .version = 1, .name = "tunnels"};

/// Messages here are small, and a coordinator has many connections.
inline constexpr std::size_t kTlsBatchBytes = std::size_t{16} << 10;

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PROTOCOLS_H_
