#ifndef TFOS_CONTROL_HOST_HELD_PORT_H_
#define TFOS_CONTROL_HOST_HELD_PORT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/process/unique_fd.h"
#include "tfos/status.h"

namespace tfos::control {

/// The ports that may be taken. `first` 0 means any port that the system has free.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  /// From "0" (any), "5000" or "5000-5100"; anything else is bad input.
  static Result<PortRange> Parse(std::string_view text);
};

/// A TCP port that is kept for a process that will listen on it later. It is bound and does not
/// listen, and open to sharing (SO_REUSEPORT). So a server of
/// the same user that sets SO_REUSEPORT too can bind it while it is still held. Nobody else can,
/// and no second HeldPort.
///
/// Owner and lifetime: move-only; the port is free again when it is destroyed and every process
/// that inherited the descriptor has closed it. Close-on-exec.
class HeldPort {
 public:
  /// The first free port of `range` at a numeric `address`; "0.0.0.0" and "::" are all of the
  /// host's, those of IPv6 included where the host has IPv6. A port on which only closed
  /// connections linger (TIME_WAIT) is free. When all are taken: retry-later, naming the range.
  static Result<HeldPort> Bind(PortRange range, const std::string& address = "0.0.0.0");

  std::uint16_t port() const { return port_; }
  int fd() const { return fd_.get(); }

 private:
  HeldPort(UniqueFd fd, std::uint16_t port) : fd_(std::move(fd)), port_(port) {}

  UniqueFd fd_;
  std::uint16_t port_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_HELD_PORT_H_
