#ifndef TFOS_TESTING_RECORDING_PROXY_H_
#define TFOS_TESTING_RECORDING_PROXY_H_

#include <cstdint>
#include <string>
#include <thread>

#include "base/process/unique_fd.h"
#include "net/listen.h"

namespace tfos::testing {

/// Stands between a client and a server of this host as a listener on the network would, and keeps
/// every byte that passes. Takes one connection.
///
/// Owner and lifetime: the test's. Threads: one of its own; `passed` once both ends have closed.
class RecordingProxy {
 public:
  explicit RecordingProxy(std::uint16_t server);
  ~RecordingProxy();

  std::uint16_t port() const { return listener_.port; }
  /// Of both directions.
  const std::string& passed();

 private:
  void PassOn();

  const std::uint16_t server_;
  const UniqueFd end_;
  net::TcpListener listener_;
  std::string passed_;
  std::thread thread_;
};

}  // namespace tfos::testing

#endif  // TFOS_TESTING_RECORDING_PROXY_H_
