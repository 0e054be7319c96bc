#include "net/poll.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace tfos::net {
namespace {

constexpr int kCheckMilliseconds = static_cast<int>(kCheckInterval.count());

}  // namespace

Result<short> Poll(int fd, short events, const Wait& wait) {
  for (;;) {
    int timeout = wait.deadline.PollMilliseconds();
    if (wait.check) {
      timeout = timeout < 0 ? kCheckMilliseconds : std::min(timeout, kCheckMilliseconds);
    }
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const int count = ::poll(&entry, 1, timeout);
    if (count < 0 && errno != EINTR) return Status::FromErrno(errno, "wait for a socket");
    if (count > 0) return entry.revents;
    if (wait.check) TFOS_RETURN_IF_ERROR(wait.check());
    if (wait.deadline.passed()) return short{0};
  }
}

}  // namespace tfos::net
