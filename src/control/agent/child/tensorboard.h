#ifndef TFOS_CONTROL_AGENT_CHILD_TENSORBOARD_H_
#define TFOS_CONTROL_AGENT_CHILD_TENSORBOARD_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/agent/child/executor_log.h"
#include "control/agent/child/supervised_child.h"
#include "control/host/held_port.h"
#include "control/link/coordinator_door.h"
#include "control/messages/parts/node_info.h"
#include "tfos/status.h"

namespace tfos::control {

/// TensorBoard beside a node. It asks nobody for a key, so it listens on the host's loopback
/// address alone; the coordinator shows it to people, through tunnels. Its port is held for as long
/// as this lives, so no other user of the host can listen in its place.
///
/// Owner and lifetime: as of SupervisedChild. Threads: those of one single-threaded executor.
class TensorBoard {
 public:
  struct Options {
    /// Program and arguments; an argument PORT (also as in --port=PORT) becomes the port, which the
    /// program must share (SO_REUSEPORT).
    std::vector<std::string> argv;
    /// NAME=value. TENSORBOARD_PORT may say which port, as PortRange::Parse takes it.
    std::vector<std::string> environment;
    std::string cwd;
    std::chrono::seconds patience{60};  ///< For it to listen: it imports a lot first.
  };
  using OnListening = std::function<void(TensorBoardProcess)>;
  using OnEnd = std::function<void(ExitStatus)>;

  /// `on_listening` is called at most once; `on_end` once, when the process has ended.
  static Result<std::unique_ptr<TensorBoard>> Start(const boost::asio::any_io_executor& executor,
                                                    Options options, ExecutorLog& log,
                                                    OnListening on_listening, OnEnd on_end);

  /// Tunnels at a time. A coordinator that asks for more is broken: a page of TensorBoard
  /// makes some requests at once.
  static constexpr int kMostTunnels = 256;

  /// Joins it to the coordinator, which has asked for this tunnel. False: there are too many.
  bool OpenTunnel(CoordinatorDoor door, int number);

  /// Zero once it has ended.
  pid_t pid() const { return child_->pid(); }
  bool ended() const { return child_->ended(); }
  void Stop(std::chrono::milliseconds grace) { child_->Stop(grace); }

 private:
  TensorBoard(const boost::asio::any_io_executor& executor, Options options, HeldPort port,
              OnListening on_listening)
      : executor_(executor),
        options_(std::move(options)),
        port_(std::move(port)),
        on_listening_(std::move(on_listening)) {}

  boost::asio::awaitable<void> AwaitListening();
  boost::asio::awaitable<void> ServeTunnel(CoordinatorDoor door, int number);

  boost::asio::any_io_executor executor_;
  Options options_;
  const HeldPort port_;
  OnListening on_listening_;
  std::unique_ptr<SupervisedChild> child_;
  int tunnels_ = 0;  ///< Open ones.
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_CHILD_TENSORBOARD_H_
