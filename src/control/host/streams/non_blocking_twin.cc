#include "control/host/streams/non_blocking_twin.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/format.h"

namespace tfos::control {

Result<UniqueFd> OpenNonBlockingTwin(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) < 0) return Status::FromErrno(errno, "look at a log's descriptor");
  if (S_ISFIFO(facts.st_mode) || S_ISCHR(facts.st_mode)) {
    const std::string path = fmt::format("/proc/self/fd/{}", fd);
    UniqueFd twin(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (twin.valid()) return twin;
  }
  // A file never blocks and must share its offset; a socket is written to with MSG_DONTWAIT.
  UniqueFd twin(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!twin.valid()) return Status::FromErrno(errno, "duplicate a log's descriptor");
  return twin;
}

Status StopWaitingForReadersOfStandardError() {
  TFOS_ASSIGN_OR_RETURN(const UniqueFd twin, OpenNonBlockingTwin(STDERR_FILENO));
  if (::dup2(twin.get(), STDERR_FILENO) < 0) {
    return Status::FromErrno(errno, "take the standard error stream");
  }
  return Status::Ok();
}

}  // namespace tfos::control
