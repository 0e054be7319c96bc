#include "control/coordinator/cluster_start.h"

#include <utility>
#include <variant>

#include "control/messages/parts/message_text.h"
#include "control/messages/parts/shared_messages.h"

namespace tfos::control {

Result<StartCluster> ParseStart(const std::string& line) {
  TFOS_ASSIGN_OR_RETURN(DriverMessage message, ParseMessage<DriverMessage>(line));
  auto* start = std::get_if<StartCluster>(&message);
  if (start == nullptr) {
    return Status(ErrorKind::kBadInput, "the driver's first message is not 'start'");
  }
  TFOS_RETURN_IF_ERROR(CheckProtocol("driver", start->protocol));
  TFOS_RETURN_IF_ERROR(CheckHeartbeats(start->heartbeat_interval, start->heartbeat_timeout));
  return std::move(*start);
}

RosterOptions RosterOptionsOf(const StartCluster& start, std::vector<Role> roles,
                              const Endpoint& endpoint) {
  return {.cluster_id = start.cluster_id,
          .name = start.name,
          .roles = std::move(roles),
          .tensorboard_node = start.tensorboard_node,
          .registration_timeout = start.registration_timeout,
          .start_timeout = start.start_timeout,
          .heartbeat_timeout = start.heartbeat_timeout,
          .step_timeout = start.step_timeout,
          .stop_grace = start.stop_grace,
          .max_lost_nodes = start.max_lost_nodes,
          .min_nodes = start.min_nodes,
          .min_nodes_timeout = start.min_nodes_timeout,
          .returning_nodes = start.returning_nodes,
          .late_nodes = start.late_nodes,
          .max_losses_of_host = start.max_losses_of_host,
          .loss_period = start.loss_period,
          .restarts = start.restarts,
          .coordinator_address = endpoint.ToString()};
}

}  // namespace tfos::control
