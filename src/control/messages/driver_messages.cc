#include "control/messages/driver_messages.h"

#include <cstdint>
#include <limits>

#include "base/format.h"
#include "control/messages/parts/bootstrap_parts_json.h"
#include "control/messages/parts/metrics_json.h"
#include "control/messages/parts/shared_messages_json.h"
#include "control/messages/progress/run_progress_json.h"

namespace tfos::control {

template <typename F, DescribedAs<RoleCount> M>
void Describe(F& f, M& m) {
  f.Required("job", m.job);
  f.Required("count", m.count, JsonRange{1, 1'000'000});
}

template <typename F, DescribedAs<StartCluster> M>
void Describe(F& f, M& m) {
  f.Required("protocol", m.protocol);
  f.Required("cluster_id", m.cluster_id);
  f.Optional("name", m.name);
  f.Required("token", m.token);
  f.Optional("scrape_token", m.scrape_token);
  f.Required("encrypt", m.encrypt);
  f.Required("bind_address", m.bind_address);
  f.Required("advertised_address", m.advertised_address);
  f.Required("ports", m.ports);
  f.Required("roles", m.roles);
  f.Required("service_jobs", m.service_jobs);
  f.Optional("tensorboard_node", m.tensorboard_node, kNodeIdOrNone);
  f.Required("registration_timeout_ms", m.registration_timeout);
  f.Required("start_timeout_ms", m.start_timeout, JsonRange{1});
  f.Required("heartbeat_interval_ms", m.heartbeat_interval, JsonRange{1});
  f.Required("heartbeat_timeout_ms", m.heartbeat_timeout, JsonRange{1});
  f.Optional("step_timeout_ms", m.step_timeout, JsonRange{0});
  f.Optional("stop_grace_ms", m.stop_grace, JsonRange{0});
  f.Optional("max_lost_nodes", m.max_lost_nodes);
  f.Optional("min_nodes", m.min_nodes, JsonRange{0});
  f.Optional("min_nodes_timeout_ms", m.min_nodes_timeout, JsonRange{0});
  f.Optional("late_nodes", m.late_nodes);
  f.Optional("max_losses_of_host", m.max_losses_of_host, JsonRange{0});
  f.Optional("loss_period_ms", m.loss_period, JsonRange{0});
  f.Optional("restarts", m.restarts, JsonRange{0});
  f.Optional("returning_nodes", m.returning_nodes, JsonRange{0});
  f.Required("log_level", m.log_level);
}

template <typename F, DescribedAs<DriverFailure> M>
void Describe(F& f, M& m) {
  f.Required("node", m.node_id, kNodeIdOrNone);
  Describe(f, m.report);
}

template <typename F, DescribedAs<Activity> M>
void Describe(F& f, M& m) {
  constexpr JsonRange kCount = {0, std::numeric_limits<std::int64_t>::max()};
  f.Required("doing", m.doing);
  f.Required("items_read", m.items_read, kCount);
  f.Required("items_moved", m.items_moved, kCount);
  f.Required("unit", m.unit);
  f.Required("cut_short", m.cut_short);
  f.Optional("epoch", m.epoch, kCount);
  f.Optional("epochs", m.epochs, kCount);
  f.Optional("epochs_before", m.epochs_before, kCount);
  f.Optional("epoch_fed", m.epoch_fed);
  f.Optional("items_before", m.items_before, kCount);
  f.Optional("items_planned", m.items_planned, kCount);
}

template <typename F, DescribedAs<Listening> M>
void Describe(F& f, M& m) {
  Describe(f, m.endpoint);
}

template <typename F, DescribedAs<Fatal> M>
void Describe(F& f, M& m) {
  f.Required("message", m.message);
}

template <typename F, DescribedAs<NodeChanged> M>
void Describe(F& f, M& m) {
  f.Required("node", m.node);
}

template <typename F, DescribedAs<ClusterFormed> M>
void Describe(F& f, M& m) {
  f.Required("nodes", m.nodes);
}

template <typename F, DescribedAs<ClusterFailed> M>
void Describe(F& f, M& m) {
  f.Required("failure", m.failure);
}

template <typename F, DescribedAs<MetricsChanged> M>
void Describe(F& f, M& m) {
  f.Required("nodes", m.nodes);
  f.Optional("progress", m.progress);
  f.Optional("rates", m.rates);
}

template <typename F, DescribedAs<NodeFeedTerminated> M>
void Describe(F& f, M& m) {
  f.Required("node_id", m.node_id, kNodeId);
}

template <typename F, DescribedAs<AskDrained> M>
void Describe(F& f, M& m) {
  f.Required("queue", m.queue);
  f.Required("epoch", m.epoch, kEpoch);
  f.Required("number", m.number);
}

template <typename F, DescribedAs<EpochDrained> M>
void Describe(F& f, M& m) {
  f.Required("number", m.number);
}

template <typename F, DescribedAs<BeginEpoch> M>
void Describe(F& f, M& m) {
  f.Required("queue", m.queue);
  f.Required("epoch", m.epoch, kEpoch);
  f.Required("number", m.number);
}

template <typename F, DescribedAs<EpochBegins> M>
void Describe(F& f, M& m) {
  f.Required("number", m.number);
}

template <typename F, DescribedAs<TrainingWaits> M>
void Describe(F& f, M& m) {
  f.Required("reason", m.reason);
}

template <typename F, DescribedAs<TurnedAway> M>
void Describe(F& f, M& m) {
  f.Required("node_id", m.node_id, kNodeId);
  f.Required("host", m.host);
  f.Required("reason", m.reason);
}

template <typename F, DescribedAs<StopAsked> M>
void Describe(F& f, M& m) {
  f.Required("by", m.by);
  f.Required("timeout_ms", m.timeout, JsonRange{0});
}

Status CheckHeartbeats(std::chrono::milliseconds interval, std::chrono::milliseconds timeout) {
  if (timeout > interval) return Status::Ok();
  return Status(
      ErrorKind::kBadInput,
      fmt::format("the heartbeat timeout ({} s) must be longer than the heartbeat interval "
                  "({} s), or every node counts as lost between two heartbeats: raise "
                  "heartbeat_timeout (spark.tfos.heartbeat.timeout) or lower "
                  "heartbeat_interval (spark.tfos.heartbeat.interval)",
                  std::chrono::duration<double>(timeout).count(),
                  std::chrono::duration<double>(interval).count()));
}

template Result<DriverMessage> ParseMessage<DriverMessage>(std::string_view);
template Result<CoordinatorEvent> ParseMessage<CoordinatorEvent>(std::string_view);

template std::string SerializeMessage(const StartCluster&);
template std::string SerializeMessage(const DriverFailure&);
template std::string SerializeMessage(const Activity&);
template std::string SerializeMessage(const AskDrained&);
template std::string SerializeMessage(const BeginEpoch&);
template std::string SerializeMessage(const Exit&);
template std::string SerializeMessage(const Listening&);
template std::string SerializeMessage(const Fatal&);
template std::string SerializeMessage(const NodeChanged&);
template std::string SerializeMessage(const ClusterFormed&);
template std::string SerializeMessage(const ClusterFailed&);
template std::string SerializeMessage(const MetricsChanged&);
template std::string SerializeMessage(const NodeFeedTerminated&);
template std::string SerializeMessage(const EpochDrained&);
template std::string SerializeMessage(const EpochBegins&);
template std::string SerializeMessage(const TrainingWaits&);
template std::string SerializeMessage(const TurnedAway&);
template std::string SerializeMessage(const StopAsked&);
template std::string SerializeMessage(const Finished&);

}  // namespace tfos::control
