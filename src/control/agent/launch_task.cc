#include "control/agent/launch_task.h"

#include <optional>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/logging.h"

namespace tfos::control {

boost::asio::awaitable<Result<LaunchOrder>> ReadLaunchOrder(LineChannel& task,
                                                            const std::string& host) {
  Result<std::optional<std::string>> line = co_await task.ReadLine();
  if (!line.ok()) co_return line.status();
  if (!line->has_value()) {
    co_return Status(ErrorKind::kReconnect, "the launch task ended before it sent the bootstrap");
  }
  Result<LaunchMessage> message = ParseMessage<LaunchMessage>(**line);
  if (!message.ok()) co_return message.status();
  if (!std::holds_alternative<AgentBootstrap>(*message)) {
    co_return Status(ErrorKind::kBadInput, "the first message is not a bootstrap");
  }
  LaunchOrder order;
  order.bootstrap = std::get<AgentBootstrap>(std::move(*message));
  const AgentBootstrap& bootstrap = order.bootstrap;
  SetUpLogging(fmt::format("agent cluster={} node={} host={}", bootstrap.cluster_id,
                           bootstrap.node_id, host),
               bootstrap.log_level);
  if (bootstrap.protocol != kProtocolVersion) {
    co_return Status(ErrorKind::kUnsupported,
                     fmt::format("the launch task speaks control protocol {}, this agent {}: "
                                 "install the same version of tfos everywhere",
                                 bootstrap.protocol, kProtocolVersion));
  }
  if (bootstrap.python.empty()) {
    co_return Status(ErrorKind::kBadInput, "the bootstrap names no program to run");
  }
  Result<std::string> payload =
      co_await task.ReadRaw(static_cast<std::size_t>(bootstrap.payload_bytes));
  if (!payload.ok()) co_return payload.status();
  order.payload = std::move(payload).value();
  co_return order;
}

boost::asio::awaitable<Status> FollowLaunchTask(LineChannel& task, RepeatedWarnings& warnings,
                                                std::function<void()> on_detach) {
  while (true) {
    Result<std::optional<std::string>> line = co_await task.ReadLine();
    if (line.ok() && !line->has_value()) co_return Status::Ok();
    Result<LaunchMessage> message =
        line.ok() ? ParseMessage<LaunchMessage>(**line) : Result<LaunchMessage>(line.status());
    if (!message.ok()) {
      co_return message.status().Annotate("the launch task sent a bad message");
    }
    if (std::holds_alternative<Detach>(*message)) on_detach();
    if (const auto* unknown = std::get_if<UnknownMessage>(&*message)) {
      warnings.LogUnknown("launch task", unknown->type);
    }
  }
}

}  // namespace tfos::control
