#include "control/agent/child/tensorboard.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/logging.h"
#include "control/agent/child/tensorboard_tunnel.h"
#include "control/link/spawn.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kProbeInterval(250);

void ReplacePort(std::vector<std::string>& argv, std::uint16_t port) {
  constexpr std::string_view kPlaceholder = "PORT";
  for (std::string& argument : argv) {
    if (argument == kPlaceholder || argument.ends_with("=PORT")) {
      argument.replace(argument.size() - kPlaceholder.size(), kPlaceholder.size(),
                       std::to_string(port));
    }
  }
}

/// TENSORBOARD_PORT in its environment asks for one port, as it did in TensorFlowOnSpark. In a
/// namespace with a service called tensorboard, Kubernetes sets it to an address. Otherwise any
/// port does: nobody from outside connects with it.
PortRange PortsOf(const std::vector<std::string>& environment) {
  constexpr std::string_view kVariable = "TENSORBOARD_PORT=";
  for (const std::string& variable : environment) {
    if (!variable.starts_with(kVariable)) continue;
    const Result<PortRange> asked =
        PortRange::Parse(std::string_view(variable).substr(kVariable.size()));
    if (asked.ok()) return *asked;
    LogWarning("{} asks for no port: TensorBoard takes any that is free", variable);
  }
  return {};
}

asio::awaitable<bool> Accepts(const asio::any_io_executor& executor, std::uint16_t port) {
  tcp::socket socket(executor);
  const tcp::endpoint loopback(asio::ip::address_v4::loopback(), port);
  auto [refused] = co_await socket.async_connect(loopback, kNoThrow);
  co_return !refused;
}

}  // namespace

Result<std::unique_ptr<TensorBoard>> TensorBoard::Start(const asio::any_io_executor& executor,
                                                        Options options, ExecutorLog& log,
                                                        OnListening on_listening, OnEnd on_end) {
  TFOS_ASSIGN_OR_RETURN(HeldPort port, HeldPort::Bind(PortsOf(options.environment)));
  ReplacePort(options.argv, port.port());
  SubprocessOptions process{
      .argv = options.argv, .environment = options.environment, .cwd = options.cwd};
  std::unique_ptr<TensorBoard> tensorboard(
      new TensorBoard(executor, std::move(options), std::move(port), std::move(on_listening)));
  TFOS_ASSIGN_OR_RETURN(tensorboard->child_, SupervisedChild::Start(executor, std::move(process),
                                                                    log, std::move(on_end)));
  Spawn(executor, "wait for TensorBoard", tensorboard->AwaitListening(),
        [](const Status&) { LogWarning("where TensorBoard listens is not shown"); });
  return tensorboard;
}

bool TensorBoard::OpenTunnel(CoordinatorDoor door, int number) {
  if (tunnels_ >= kMostTunnels) return false;
  ++tunnels_;
  Spawn(executor_, "show TensorBoard", ServeTunnel(std::move(door), number),
        [this](const Status&) { --tunnels_; });
  return true;
}

asio::awaitable<void> TensorBoard::ServeTunnel(CoordinatorDoor door, int number) {
  co_await OpenTensorBoardTunnel(executor_, std::move(door), static_cast<std::uint32_t>(number),
                                 port_.port());
  --tunnels_;
}

asio::awaitable<void> TensorBoard::AwaitListening() {
  const Deadline deadline = Deadline::After(options_.patience);
  asio::steady_timer timer(executor_);
  while (!child_->ended() && !deadline.passed()) {
    const bool listening = co_await Accepts(executor_, port_.port());
    if (listening && !child_->ended()) {
      on_listening_(TensorBoardProcess{.pid = child_->pid(), .port = port_.port()});
      co_return;
    }
    timer.expires_after(kProbeInterval);
    co_await timer.async_wait(kNoThrow);
  }
  if (!child_->ended()) {
    LogWarning("TensorBoard does not listen on port {} after {} s; it is left running",
               port_.port(), options_.patience.count());
  }
}

}  // namespace tfos::control
