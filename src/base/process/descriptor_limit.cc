#include "base/process/descriptor_limit.h"

#include <sys/resource.h>

#include <cerrno>

namespace tfos {

Status RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return Status::FromErrno(errno, "ask for the limit");
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) < 0) return Status::FromErrno(errno, "raise the limit");
  return {};
}

}  // namespace tfos
