#ifndef TFOS_NET_RESOLVE_H_
#define TFOS_NET_RESOLVE_H_

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/time/wait.h"
#include "tfos/status.h"

namespace tfos::net {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
/// At least one; the list's own order.
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// As getaddrinfo, which tests replace.
using Lookup = int (*)(const char* host, const char* port, const addrinfo* hints, addrinfo** list);

/// A question to the name server.
///
/// A name server that does not answer holds getaddrinfo for a minute and more, and nothing can
/// interrupt it. So a thread asks, and is left behind when nobody waits any more: it ends with the
/// answer, which it frees.
///
/// Owner and lifetime: a value. Threads: one at a time.
class AddressQuestion {
 public:
  /// Asks for the TCP addresses of `host`.
  /// Errors: retry-later when the process may have no more threads or descriptors.
  static Result<AddressQuestion> Ask(const std::string& host, std::uint16_t port,
                                     Lookup lookup = ::getaddrinfo);

  /// Has input once there is an answer.
  int fd() const;
  /// What came: to be called once, after fd() has input. Errors: reconnect when the name is not
  /// known; retry-later when the name server could not say.
  Result<Addresses> Answer();

 private:
  struct Shared;
  explicit AddressQuestion(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;
};

/// The addresses of a numeric `host`. Asks nobody.
Result<Addresses> NumericAddress(const std::string& host, std::uint16_t port);

/// The TCP addresses of `host`, a name or a number.
/// Errors: those of AddressQuestion; retry-later when there was no answer in time; what the
/// interrupt check returned.
Result<Addresses> Resolve(const std::string& host, std::uint16_t port, const Wait& wait,
                          Lookup lookup = ::getaddrinfo);

}  // namespace tfos::net

#endif  // TFOS_NET_RESOLVE_H_
