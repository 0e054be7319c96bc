#ifndef TFOS_BASE_TEXT_ENDPOINT_H_
#define TFOS_BASE_TEXT_ENDPOINT_H_

#include <string>
#include <string_view>

#include "tfos/status.h"

namespace tfos {

/// Where a TCP server can be reached: an IP address or a host's name, and a port.
/// A value. Threads: plain data.
struct Endpoint {
  std::string address;
  int port = 0;

  /// Reads `host:port`; the address of IPv6 stands in brackets. Bad input for anything else, and
  /// for a port that is not from 0 to 65535.
  static Result<Endpoint> Parse(std::string_view text);

  /// As `Parse` reads it: "10.0.0.5:41234", "[fe80::1]:41234".
  std::string ToString() const;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

}  // namespace tfos

#endif  // TFOS_BASE_TEXT_ENDPOINT_H_
