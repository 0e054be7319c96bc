#include "control/agent/node_place.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/logging.h"
#include "net/handshake/protocol.h"

namespace tfos::control {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kConnectPatience(30);

}  // namespace

asio::awaitable<Status> NodePlace::ReadOrder(LineChannel& task) {
  Result<LaunchOrder> order = co_await ReadLaunchOrder(task, host_);
  if (order.ok()) order_ = std::move(order).value();
  co_return order.status();
}

Status NodePlace::WatchExecutor(ExecutorWatch& watch, const Result<pid_t>& executor_jvm) {
  step_ = "watch the executor";
  auto pid = static_cast<pid_t>(order_.bootstrap.watch_pid);
  if (pid < 0) {
    if (!executor_jvm.ok()) return executor_jvm.status();
    pid = *executor_jvm;
  }
  return watch.Begin(pid);
}

asio::awaitable<Status> NodePlace::Join(std::function<bool()> over) {
  // Before connecting: the coordinator closes connections that don't register soon, and a cluster
  // that is just ending may hold the GPUs for longer than that.
  report_.Enter(NodeState::kStarting, "taking GPUs");
  step_ = "take GPUs";
  const Status took = co_await TakeGpusOfHost(over);
  if (over()) co_return took;

  report_.Enter(NodeState::kStarting, "connecting to the coordinator");
  if (took.ok()) step_ = "connect to the coordinator";
  const Status connected = co_await Connect();
  // The first failure is the one to tell; a coordinator that is there gets the registration too.
  Status ready = took.ok() ? connected : took;
  if (ready.ok() && !over()) ready = TakePorts();
  if (connected.ok()) Introduce();
  if (!ready.ok() || over()) co_return ready;

  step_ = "register";
  report_.SendRegister();
  report_.Enter(NodeState::kRegistered, "waiting for the other nodes");
  co_return Status::Ok();
}

asio::awaitable<Status> NodePlace::TakeGpusOfHost(const std::function<bool()>& over) {
  Result<GpuLease> gpus = co_await TakeGpus(executor_, order_.bootstrap.gpus, inventory_, over);
  if (!gpus.ok()) co_return gpus.status();
  gpus_ = std::move(gpus).value();
  if (gpus_->shared()) {
    LogWarning(
        "Spark gave the node GPU {}, which other tfos nodes have too: each library may take all "
        "memory of a GPU. Ask for one of its own (gpu_count=1) or a share (gpu_fraction), or hide "
        "it from the program",
        fmt::join(gpus_->indices(), ", "));
  }
  co_return Status::Ok();
}

asio::awaitable<Status> NodePlace::Connect() {
  AgentBootstrap& bootstrap = order_.bootstrap;
  const Endpoint& coordinator = bootstrap.coordinator;
  const Result<net::Encryption> encryption = net::EncryptionFromWord(bootstrap.encrypt);
  if (!encryption.ok()) co_return encryption.status();
  door_ = {.address = coordinator.address,
           .port = static_cast<std::uint16_t>(coordinator.port),
           .key = bootstrap.keys.join,
           .encryption = *encryption,
           .node_id = static_cast<std::uint32_t>(bootstrap.node_id),
           .connect_timeout = kConnectPatience};
  CoordinatorLink::Options options{.door = door_, .idle_timeout = bootstrap.heartbeat_timeout};
  Result<std::unique_ptr<CoordinatorLink>> link =
      co_await CoordinatorLink::Connect(executor_, std::move(options));
  if (!link.ok()) {
    co_return Status(
        ErrorKind::kReconnect,
        fmt::format("node {} on host {} can't reach the coordinator at {}: {}; check the "
                    "firewall between the hosts and spark.tfos.coordinator.advertisedAddress",
                    bootstrap.node_id, host_, coordinator.ToString(), link.status().ToString()));
  }
  link_ = std::move(link).value();
  if (bootstrap.advertised_address.empty()) bootstrap.advertised_address = link_->local_address();
  if (bootstrap.bind_address.empty()) bootstrap.bind_address = bootstrap.advertised_address;
  co_return Status::Ok();
}

Status NodePlace::TakePorts() {
  step_ = "take ports";
  const AgentBootstrap& bootstrap = order_.bootstrap;
  TFOS_ASSIGN_OR_RETURN(const PortRange range, PortRange::Parse(bootstrap.ports));
  // For TensorFlow, whose servers listen on all addresses of their own accord.
  TFOS_ASSIGN_OR_RETURN(port_, HeldPort::Bind(range));
  Result<HeldPort> held = HeldPort::Bind(range, bootstrap.bind_address);
  if (!held.ok() && bootstrap.bind_address == bootstrap.advertised_address) {
    return held.status().Annotate(
        fmt::format("listen on {}, where others reach node {} (spark.tfos.node.bindAddress is "
                    "advertised): if host {} does not have that address, set it to all",
                    bootstrap.bind_address, bootstrap.node_id, host_));
  }
  if (!held.ok()) return held.status();
  tensor_port_ = std::move(held).value();
  return {};
}

void NodePlace::Introduce() {
  const AgentBootstrap& bootstrap = order_.bootstrap;
  report_.ConnectTo(*link_,
                    Register{
                        .node_id = bootstrap.node_id,
                        .host = host_,
                        .address = bootstrap.advertised_address,
                        .port = port_.has_value() ? port_->port() : 0,
                        .tensor_port = tensor_port_.has_value() ? tensor_port_->port() : 0,
                        .agent_pid = ::getpid(),
                        .executor_id = bootstrap.executor_id,
                        .gpus = gpus_.has_value() ? gpus_->indices() : std::vector<std::string>(),
                    });
}

NodeProcess::Options NodePlace::OptionsOfNode(const StartNode& start) {
  AgentBootstrap& bootstrap = order_.bootstrap;
  NodeProcess::Options options;
  options.process.argv = bootstrap.python;
  options.process.cwd = bootstrap.cwd;
  options.process.environment = bootstrap.environment;
  options.process.keep_fds = {port_->fd(), tensor_port_->fd()};
  if (bootstrap.result_fd >= 0) options.process.keep_fds.push_back(bootstrap.result_fd);
  options.payload = std::move(order_.payload);
  options.answer_timeout = bootstrap.answer_timeout;
  options.bootstrap = {
      .cluster_id = bootstrap.cluster_id,
      .keys = {.feed = bootstrap.keys.feed,
               .tensors = bootstrap.keys.tensors,
               .parameters = bootstrap.keys.parameters},
      .encrypt = bootstrap.encrypt,
      .node_id = bootstrap.node_id,
      .executor_id = bootstrap.executor_id,
      .job_name = start.job_name,
      .task_index = start.task_index,
      .cluster_spec = start.cluster_spec,
      .num_workers = start.num_workers,
      .joins = start.joins,
      .nodes = start.nodes,
      .port = port_->port(),
      .port_fd = port_->fd(),
      .tensor_port_fd = tensor_port_->fd(),
      .address = bootstrap.advertised_address,
      .bind_address = bootstrap.bind_address,
      .host = host_,
      .gpus = gpus(),
      .gpu_fraction = bootstrap.gpus.fraction,
      .coordinator = bootstrap.coordinator,
      .heartbeat_interval = bootstrap.heartbeat_interval,
      .node = bootstrap.node,
      .payload_bytes = static_cast<std::int64_t>(options.payload.size()),
  };
  return options;
}

TensorBoard::Options NodePlace::OptionsOfTensorBoard() const {
  TensorBoard::Options options;
  options.argv = order_.bootstrap.tensorboard;
  options.cwd = order_.bootstrap.cwd;
  options.environment = order_.bootstrap.environment;
  return options;
}

void NodePlace::GiveBack() {
  ReleasePorts();
  gpus_.reset();
}

void NodePlace::ReleasePorts() {
  port_.reset();
  tensor_port_.reset();
}

}  // namespace tfos::control
