#include "net/handshake/reach.h"

#include <poll.h>

#include <chrono>

#include "base/format.h"

namespace tfos::net {
namespace {

/// Between two attempts.
constexpr std::chrono::milliseconds kInterval{50};
/// How often the other end may close the connection during the handshake.
constexpr int kMostClosed = 10;

}  // namespace

Status Reach(const Wait& wait, const Attempt& attempt) {
  int closed = 0;
  while (true) {
    bool connected = false;
    const Status status = attempt(connected);
    if (status.ok()) return status;
    const bool not_yet = status.kind() == ErrorKind::kRetryLater;
    if (connected && !not_yet && status.kind() != ErrorKind::kReconnect) return status;
    if (connected && !not_yet && ++closed == kMostClosed) {
      return status.Annotate(fmt::format("{} times in a row, during the handshake", kMostClosed));
    }
    if (wait.deadline.passed()) return status;
    if (wait.check) TFOS_RETURN_IF_ERROR(wait.check());
    ::poll(nullptr, 0, static_cast<int>(kInterval.count()));
  }
}

}  // namespace tfos::net
