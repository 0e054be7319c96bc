#include "base/process/pidfd.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace tfos {

Result<UniqueFd> OpenPidfd(pid_t pid) {
  // By number: the C library of an executor may be older than the wrapper.
  const long fd = ::syscall(SYS_pidfd_open, pid, 0);
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  const std::string watched = "process " + std::to_string(pid);
  if (errno == ESRCH) return Status(ErrorKind::kReconnect, watched + " has ended already");
  if (errno == ENOSYS) {
    return Status(ErrorKind::kUnsupported,
                  "this kernel cannot watch " + watched + ": tfos needs Linux 5.3 or newer");
  }
  return Status::FromErrno(errno, "watch " + watched);
}

bool WaitForEnd(const UniqueFd& pidfd, Deadline deadline) {
  pollfd ended{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  while (true) {
    const int ready = ::poll(&ended, 1, deadline.PollMilliseconds());
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace tfos
