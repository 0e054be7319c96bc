#ifndef TFOS_CONTROL_LINK_COORDINATOR_LINK_H_
#define TFOS_CONTROL_LINK_COORDINATOR_LINK_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/time/deadline.h"
#include "control/link/coordinator_door.h"
#include "control/link/send_queue.h"
#include "tfos/status.h"

namespace tfos::control {

/// An agent's connection to the coordinator (the WebSocket library stays behind this interface).
///
/// Owner and lifetime: outlives the coroutines that use it. Its executor must not run any more once
/// it is destroyed.
/// Threads: those of one single-threaded executor. One reader; anyone may send.
/// Errors: the connection also ends when the coordinator leaves kMaxQueuedBytes unread.
class CoordinatorLink {
 public:
  static constexpr std::size_t kMaxQueuedBytes = 64u << 20;

  struct Options {
    CoordinatorDoor door;
    /// A coordinator that is silent for this long, pings unanswered, counts as gone.
    std::chrono::milliseconds idle_timeout{10000};
  };

  /// Connects; both ends prove that they have the key. Errors: reconnect with the reason.
  static boost::asio::awaitable<Result<std::unique_ptr<CoordinatorLink>>> Connect(
      boost::asio::any_io_executor executor, Options options);

  virtual ~CoordinatorLink() = default;

  /// This end's address, at which the coordinator's host saw us.
  virtual const std::string& local_address() const = 0;

  /// The next message; reconnect once the connection has ended, with the reason.
  virtual boost::asio::awaitable<Result<std::string>> Read() = 0;

  /// Queues a message; dropped when the connection has ended, which `Read` tells.
  virtual void Send(std::string message) = 0;

  /// For state: of each `kind` one message at most waits, and `make` makes it when it is its turn.
  virtual void SendLatest(std::string_view kind, SendQueue<std::string>::Make make) = 0;

  /// Waits until the kernel has all that is queued, or the deadline comes.
  virtual boost::asio::awaitable<void> Flush(Deadline deadline) = 0;

  /// Sends what is queued, then closes.
  virtual boost::asio::awaitable<void> Close(Deadline deadline) = 0;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_COORDINATOR_LINK_H_
