#include "net/handshake/reach.h"

#include <poll.h>

#include <algorithm>
#include <chrono>

#include "base/format.h"

namespace tfos::net {
namespace {

/// Between two attempts.
constexpr std::chrono::milliseconds kInterval{50};

/// Ends early with the deadline.
Status Pause(const Wait& wait, std::chrono::milliseconds time) {
  const Deadline end = wait.deadline.Min(Deadline::After(time));
  do {
    if (wait.check) TFOS_RETURN_IF_ERROR(wait.check());
    ::poll(nullptr, 0, std::min(end.PollMilliseconds(), static_cast<int>(kCheckInterval.count())));
  } while (!end.passed());
  return {};
}

}  // namespace

Status Reach(const Wait& wait, const Attempt& attempt, std::chrono::milliseconds longest_pause) {
  int closed = 0;  // In a row.
  std::chrono::milliseconds pause = kInterval;
  while (true) {
    bool connected = false;
    const Status status = attempt(connected);
    if (status.ok()) return status;
    const bool not_yet = status.kind() == ErrorKind::kRetryLater;
    if (connected && !not_yet && status.kind() != ErrorKind::kReconnect) return status;
    if (connected && !not_yet) {
      pause = closed++ == 0 ? kInterval : std::min(2 * pause, longest_pause);
    } else {
      closed = 0;
      pause = kInterval;
    }
    if (wait.deadline.passed()) {
      if (closed < 2) return status;
      return status.Annotate(fmt::format("{} times in a row, during the handshake", closed));
    }
    TFOS_RETURN_IF_ERROR(Pause(wait, pause));
  }
}

}  // namespace tfos::net
