// Measures a coordinator under many agents: how long they take to register and get their start,
// what memory that needs, and what CPU time it costs when all they do is send heartbeats.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/crypto/purpose.h"
#include "base/crypto/secret.h"
#include "base/format.h"
#include "base/logging.h"
#include "base/process/unique_fd.h"
#include "control/coordinator/coordinator.h"
#include "control/messages/agent_messages.h"
#include "control/messages/driver_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/protocols.h"
#include "net/handshake/handshake.h"
#include "testing/raw_client.h"

namespace tfos {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

struct Driver {
  UniqueFd to;
  FILE* from = nullptr;
  pid_t coordinator = 0;

  void Tell(const std::string& message) const {
    const std::string line = message + "\n";
    if (::write(to.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      fmt::print(stderr, "the coordinator does not listen\n");
      std::exit(1);
    }
  }

  std::string Hear() const {
    std::string line;
    for (int c = std::fgetc(from); c != EOF && c != '\n'; c = std::fgetc(from)) {
      line += static_cast<char>(c);
    }
    return line;
  }
};

Driver StartCoordinator() {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) std::exit(1);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(in[1]);
    ::close(out[0]);
    SetUpLogging("coordinator", "ERROR");
    std::exit(control::RunCoordinator({.input = UniqueFd(in[0]), .output = UniqueFd(out[1])}));
  }
  ::close(in[0]);
  ::close(out[1]);
  return {.to = UniqueFd(in[1]), .from = ::fdopen(out[0], "r"), .coordinator = pid};
}

long PeakKilobytes(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
  }
  return 0;
}

double CpuSeconds(pid_t pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
  constexpr std::size_t kUserTicks = 11;  // counted from the field after the name
  return static_cast<double>(std::stol(words[kUserTicks]) + std::stol(words[kUserTicks + 1])) /
         static_cast<double>(::sysconf(_SC_CLK_TCK));
}

int Measure(int agents, int seconds, bool encrypted) {
  ::signal(SIGPIPE, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);

  const Driver driver = StartCoordinator();
  control::StartCluster start;
  start.cluster_id = "load";
  start.token = *Secret::Generate();
  start.encrypt = encrypted ? "true" : "false";
  start.bind_address = "127.0.0.1";
  start.ports = "0";
  start.roles = {{.job = "worker", .count = agents}};
  start.heartbeat_interval = std::chrono::milliseconds(1000);
  start.log_level = "ERROR";
  driver.Tell(control::SerializeMessage(start));
  const auto listening = control::ParseMessage<control::CoordinatorEvent>(driver.Hear());
  const auto port =
      static_cast<std::uint16_t>(std::get<control::Listening>(*listening).endpoint.port);
  // The driver reads all the time, as the real one does.
  std::jthread reader([&driver] {
    while (!driver.Hear().empty()) {
    }
  });

  const net::Party party{
      .protocol = control::kAgentProtocol,
      .key = KeyFor(start.token, Purpose::kJoin),
      .encryption = encrypted ? net::Encryption::kAlways : net::Encryption::kNever,
      .tls_batch_bytes = control::kTlsBatchBytes};
  const auto begin = steady_clock::now();
  std::vector<testing::RawClient> clients;
  clients.reserve(static_cast<std::size_t>(agents));
  for (int i = 0; i < agents; ++i) {
    testing::RawClient& client = clients.emplace_back(
        port, party, net::Numbers{.connecting = static_cast<std::uint32_t>(i)});
    client.Upgrade("/v1/agent");
    control::Register registration;
    registration.node_id = i;
    registration.host = fmt::format("host-{}", i);
    registration.address = "10.0.0.6";
    registration.port = 2222;
    registration.executor_id = std::to_string(i);
    client.SendText(control::SerializeMessage(registration));
  }
  int started = 0;
  for (testing::RawClient& client : clients) started += client.ReadText().has_value() ? 1 : 0;
  const double registered = duration<double>(steady_clock::now() - begin).count();
  fmt::print("{}: {} of {} agents registered and started in {:.2f} s, coordinator's peak {} MB\n",
             encrypted ? "encrypted" : "plain", started, agents, registered,
             PeakKilobytes(driver.coordinator) / 1024);

  control::Heartbeat heartbeat;
  heartbeat.metrics = {{"rows", std::int64_t{12345}}, {"step", std::int64_t{67}}};
  const std::string beat = control::SerializeMessage(heartbeat);
  for (testing::RawClient& client : clients) client.SendText(beat);
  const double before = CpuSeconds(driver.coordinator);
  const auto interval = std::chrono::duration<double>(1.0 / agents);
  auto next = steady_clock::now();
  for (int i = 0; i < seconds * agents; ++i) {
    clients[static_cast<std::size_t>(i % agents)].SendText(beat);
    next += std::chrono::duration_cast<steady_clock::duration>(interval);
    std::this_thread::sleep_until(next);
  }
  const double used = CpuSeconds(driver.coordinator) - before;
  fmt::print("idle, a heartbeat a second from each: {:.2f} % of one core over {} s\n",
             100.0 * used / seconds, seconds);
  driver.Tell(control::SerializeMessage(control::Exit{}));
  ::waitpid(driver.coordinator, nullptr, 0);
  return started == agents ? 0 : 1;
}

}  // namespace
}  // namespace tfos

int main(int argc, char** argv) {
  CLI::App app("Measures a coordinator under many simulated agents");
  int agents = 1000;
  int seconds = 10;
  bool plain = false;
  app.add_option("--agents", agents, "How many agents")->capture_default_str();
  app.add_option("--seconds", seconds, "How long to send heartbeats")->capture_default_str();
  app.add_flag("--plain", plain, "Without encryption; otherwise with, though it is one host");
  CLI11_PARSE(app, argc, argv);
  return tfos::Measure(agents, seconds, !plain);
}
