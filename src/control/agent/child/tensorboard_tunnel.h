#ifndef TFOS_CONTROL_AGENT_CHILD_TENSORBOARD_TUNNEL_H_
#define TFOS_CONTROL_AGENT_CHILD_TENSORBOARD_TUNNEL_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "control/link/coordinator_door.h"

namespace tfos::control {

/// Joins the coordinator, which has asked for tunnel `number`, to the TensorBoard of this host,
/// until one of them closes. Errors: logged.
boost::asio::awaitable<void> OpenTensorBoardTunnel(boost::asio::any_io_executor executor,
                                                   CoordinatorDoor door, std::uint32_t number,
                                                   std::uint16_t port);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_CHILD_TENSORBOARD_TUNNEL_H_
