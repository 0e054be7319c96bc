#ifndef TFOS_CONTROL_LINK_SERVER_TUNNELS_H_
#define TFOS_CONTROL_LINK_SERVER_TUNNELS_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>

#include "control/link/server/control_service.h"
#include "net/stream.h"

namespace tfos::control {

/// Connections that agents open when they are asked to, each to the TensorBoard beside its node.
///
/// Owner and lifetime: a ControlServer's, and outlives the coroutines that use it. Threads: those
/// of one single-threaded executor.
class Tunnels {
 public:
  /// That may be awaited at a time.
  static constexpr std::size_t kMost = 256;
  /// For an agent to come.
  static constexpr std::chrono::seconds kPatience{10};

  explicit Tunnels(const boost::asio::any_io_executor& executor) : executor_(executor) {}

  /// Asks an agent through the service, and waits for it. Null when none can be asked, or comes.
  boost::asio::awaitable<std::unique_ptr<net::Stream>> Open(ControlService& service);

  /// One has come. It is closed unless it was asked for, of this node.
  void Take(int number, int node_id, std::unique_ptr<net::Stream> stream);

 private:
  struct Awaited;

  boost::asio::any_io_executor executor_;
  int next_ = 0;
  std::map<int, Awaited*> awaited_;  ///< By number.
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_SERVER_TUNNELS_H_
