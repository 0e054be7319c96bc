#ifndef TFOS_CONTROL_AGENT_LAUNCH_TASK_H_
#define TFOS_CONTROL_AGENT_LAUNCH_TASK_H_

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "control/agent/repeated_warnings.h"
#include "control/link/line_channel.h"
#include "control/messages/launch_messages.h"
#include "tfos/status.h"

namespace tfos::control {

/// What the launch task wants of its agent, and the program for the node.
struct LaunchOrder {
  AgentBootstrap bootstrap;
  std::string payload;
};

/// Reads the order from `task` and sets up logging as it says.
/// Errors: reconnect when the task ends first; bad input or unsupported for an order that this
/// agent can't carry out.
boost::asio::awaitable<Result<LaunchOrder>> ReadLaunchOrder(LineChannel& task,
                                                            const std::string& host);

/// Reads what the task says from then on, until it ends. `on_detach` is called when it says that it
/// will leave. Bad input when it says what nobody understands.
boost::asio::awaitable<Status> FollowLaunchTask(LineChannel& task, RepeatedWarnings& warnings,
                                                std::function<void()> on_detach);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_LAUNCH_TASK_H_
