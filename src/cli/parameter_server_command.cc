#include "cli/parameter_server_command.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "base/crypto/secret.h"
#include "base/format.h"
#include "base/logging.h"
#include "base/process/descriptor_limit.h"
#include "base/process/pidfd.h"
#include "base/process/unique_fd.h"
#include "base/thread/guarded.h"
#include "base/thread/thread.h"
#include "control/link/node/node_link.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/bootstrap_parts.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/metric_names.h"
#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/parts/shared_messages.h"
#include "net/handshake/protocol.h"
#include "net/listen.h"
#include "parameter_server/server.h"
#include "tfos/status.h"

namespace tfos::cli {
namespace {

using control::KnownName;
using nlohmann::json;
using parameter_server::Server;
using parameter_server::ServerCounters;

/// The agent writes the bootstrap as soon as it has started this process.
constexpr std::chrono::seconds kBootstrapPatience(60);

/// SIGTERM and SIGINT as a descriptor. Call it before there are threads, which inherit the mask.
Result<UniqueFd> BlockSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC));
  if (!fd.valid()) return Status::FromErrno(errno, "open a signalfd");
  return fd;
}

/// Serves until a signal comes or one of `ends` polls readable (-1 for none).
Status ServeUntil(Server& server, int signals, int first_end, int second_end) {
  const UniqueFd ended(::eventfd(0, EFD_CLOEXEC));
  if (!ended.valid()) return Status::FromErrno(errno, "open an eventfd");
  Status served;
  TFOS_ASSIGN_OR_RETURN(
      std::thread serving, StartThread("tfos-serve", [&] {
        Guarded([&] { served = server.Run(); },
                [&](ErrorKind kind, const char* what) { served = Status(kind, what); });
        const std::uint64_t one = 1;
        // Cannot fail: the counter is far from its limit.
        [[maybe_unused]] const ssize_t written = ::write(ended.get(), &one, sizeof(one));
      }));
  pollfd waiting[] = {{.fd = signals, .events = POLLIN, .revents = 0},
                      {.fd = ended.get(), .events = POLLIN, .revents = 0},
                      {.fd = first_end, .events = POLLIN, .revents = 0},
                      {.fd = second_end, .events = POLLIN, .revents = 0}};
  while (::poll(waiting, std::size(waiting), -1) < 0 && errno == EINTR) {
  }
  server.Stop();
  serving.join();
  return served;
}

std::string Metrics(const ServerCounters& counters) {
  return json{{KnownName("parameter_workers"), counters.workers},
              {KnownName("parameter_pushes"), counters.pushes},
              {KnownName("parameter_bytes"), counters.values_bytes},
              {KnownName("parameter_bytes_combined"), counters.bytes_combined},
              {KnownName("parameter_bytes_received"), counters.bytes_received},
              {KnownName("parameter_bytes_sent"), counters.bytes_sent}}
      .dump();
}

Status ServeAsNode(control::NodeLink& link, const control::NodeBootstrap& node, int signals) {
  TFOS_ASSIGN_OR_RETURN(const net::Encryption encryption, net::EncryptionFromWord(node.encrypt));
  const auto number = static_cast<std::uint32_t>(node.task_index);
  UniqueFd listener(node.tensor_port_fd);
  TFOS_ASSIGN_OR_RETURN(const std::uint16_t port, net::LocalPort(listener.get()));
  parameter_server::ServerOptions options{.key = node.keys.parameters,
                                          .number = number,
                                          .listener = std::move(listener),
                                          .local_name = parameter_server::LocalName(
                                              node.keys.parameters, node.cluster_id, number, port),
                                          .encryption = encryption,
                                          .returns = node.joins};
  TFOS_ASSIGN_OR_RETURN(auto created, Server::Create(std::move(options)));
  // The link outlives this function, and asks for the counters until it ends.
  const std::shared_ptr<Server> server = std::move(created);
  TFOS_RETURN_IF_ERROR(
      link.Start({.on_feed = {}, .metrics = [server] { return Metrics(server->counters()); }}));
  control::StateReport running;
  running.state = control::NodeState::kRunning;
  TFOS_RETURN_IF_ERROR(link.Send(control::SerializeMessage(running)));
  Status served = ServeUntil(*server, signals, -1, -1);
  link.SendMetrics();
  return served;
}

Status RunNode(int signals) {
  TFOS_ASSIGN_OR_RETURN(auto link,
                        control::NodeLink::FromEnvironment(Deadline::After(kBootstrapPatience)));
  TFOS_ASSIGN_OR_RETURN(const control::NodeCommand command,
                        control::ParseMessage<control::NodeCommand>(link->bootstrap()));
  const auto& node = std::get<control::NodeBootstrap>(command);
  SetUpLogging(fmt::format("parameter-server cluster={} node={} host={}", node.cluster_id,
                           node.node_id, node.host),
               "INFO");
  Status served = ServeAsNode(*link, node, signals);
  if (!served.ok()) {
    control::FailureReport failure;
    failure.step = "serve parameters";
    failure.message = served.ToString();
    TFOS_RETURN_IF_ERROR(
        link->Send(control::SerializeMessage(control::FailureMessage{std::move(failure)})));
  }
  return served;
}

Result<std::unique_ptr<Server>> ServerAsTold(const std::string& line, std::uint16_t& port) {
  const json told = json::parse(line, nullptr, false);
  if (!told.is_object() || !told.contains("key") || !told["key"].is_string() ||
      !told.contains("address") || !told["address"].is_string() || !told.contains("port") ||
      !told["port"].is_number_unsigned() || told["port"].get<std::uint64_t>() > 0xffff ||
      !told.contains("id") || !told["id"].is_string() || !told.contains("encrypt") ||
      !told["encrypt"].is_string()) {
    return Status(ErrorKind::kBadInput,
                  "the first line of the input must be a JSON object with key, address, port, id "
                  "and encrypt");
  }
  TFOS_ASSIGN_OR_RETURN(const Secret key, Secret::FromHex(told["key"].get<std::string>()));
  TFOS_ASSIGN_OR_RETURN(const net::Encryption encryption,
                        net::EncryptionFromWord(told["encrypt"].get<std::string>()));
  const auto wanted = told["port"].get<std::uint16_t>();
  TFOS_ASSIGN_OR_RETURN(net::TcpListener listener,
                        net::ListenTcp(told["address"].get<std::string>(), wanted, wanted));
  port = listener.port;
  return Server::Create(
      {.key = key,
       .listener = std::move(listener.fd),
       .local_name = parameter_server::LocalName(key, told["id"].get<std::string>(), 0, port),
       .encryption = encryption});
}

Status RunAsChild(int signals) {
  // Its death is seen even if somebody else holds the other end of the input.
  TFOS_ASSIGN_OR_RETURN(const UniqueFd parent, OpenPidfd(::getppid()));
  std::string line;
  std::getline(std::cin, line);
  std::uint16_t port = 0;
  const auto server = ServerAsTold(line, port);
  if (!server.ok()) {
    std::cout << json{{"type", "failed"}, {"message", server.status().ToString()}} << std::endl;
    return server.status();
  }
  std::cout << json{{"type", "listening"}, {"port", port}} << std::endl;
  return ServeUntil(**server, signals, STDIN_FILENO, parent.get());
}

int Run() {
  SetUpLogging("parameter-server", "INFO");
  ::signal(SIGPIPE, SIG_IGN);
  if (const Status raised = RaiseDescriptorLimit(); !raised.ok()) {
    LogWarning("keeping the limit of open files: {}", raised.ToString());
  }
  const auto signals = BlockSignals();
  const bool is_node = std::getenv(control::NodeLink::kFdVariable) != nullptr;
  const Status served = !signals.ok() ? signals.status()
                        : is_node     ? RunNode(signals->get())
                                      : RunAsChild(signals->get());
  if (served.ok()) return 0;
  LogError("{}", served.ToString());
  return 1;
}

}  // namespace

void AddParameterServerCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "parameter-server", "Keep and combine variables of workers (started by tfos itself)");
  command->group("");  // Not for people.
  command->callback([&exit_code] { exit_code = Run(); });
}

}  // namespace tfos::cli
