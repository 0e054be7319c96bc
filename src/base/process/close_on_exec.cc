#include "base/process/close_on_exec.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace tfos {
namespace {

/// The number that a name in /proc/self/fd stands for; -1 for "." and "..".
int NumberOf(const char* name) {
  int number = 0;
  for (; *name != '\0'; ++name) {
    if (*name < '0' || *name > '9') return -1;
    number = number * 10 + (*name - '0');
  }
  return number;
}

}  // namespace

bool MarkListedCloseOnExec(int first) {
  // Neither opendir nor readdir: they allocate, and another thread may have held the heap's lock
  // when the process forked.
  const int directory = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return false;
  alignas(struct dirent64) char entries[4096];
  while (true) {
    const long bytes = ::syscall(SYS_getdents64, directory, entries, sizeof(entries));
    if (bytes <= 0) {
      ::close(directory);
      return bytes == 0;
    }
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const struct dirent64*>(entries + at);
      const int fd = NumberOf(entry->d_name);
      if (fd >= first) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
      at += entry->d_reclen;
    }
  }
}

bool MarkCloseOnExec(int first) {
#ifdef SYS_close_range
  constexpr unsigned kCloexec = 1U << 2;  // CLOSE_RANGE_CLOEXEC, Linux 5.11
  if (::syscall(SYS_close_range, first, ~0U, kCloexec) == 0) return true;
#endif
  return MarkListedCloseOnExec(first);
}

}  // namespace tfos
