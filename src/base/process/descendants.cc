#include "base/process/descendants.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/format.h"
#include "base/process/pidfd.h"
#include "base/process/process_state.h"

namespace tfos {
namespace {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
};

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
std::vector<Process> AllProcesses() {
  std::vector<Process> processes;
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir("/proc"));
  if (folder == nullptr) return processes;
  while (const dirent* entry = ::readdir(folder.get())) {
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    pid_t pid = 0;
    if (std::from_chars(entry->d_name, end, pid).ptr != end) continue;
    const auto stat = ReadProcessStat(fmt::format("/proc/{}", pid));
    if (stat) processes.push_back({.pid = pid, .parent = stat->parent});
  }
  return processes;
}

bool Contains(std::span<const pid_t> pids, pid_t pid) {
  return std::ranges::find(pids, pid) != pids.end();
}

std::vector<pid_t> ChildrenBut(std::span<const pid_t> keep) {
  std::vector<pid_t> children;
  for (const Process& process : AllProcesses()) {
    if (process.parent == ::getpid() && !Contains(keep, process.pid)) {
      children.push_back(process.pid);
    }
  }
  return children;
}

}  // namespace

Status AdoptOrphans() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0) return Status::Ok();
  return Status::FromErrno(errno, "adopt what the node's processes leave behind");
}

void ReapOrphans(std::span<const pid_t> keep) {
  while (true) {
    siginfo_t info{};
    // Looked at first: an end that somebody waits for is theirs.
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0) return;
    if (Contains(keep, info.si_pid)) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

std::size_t EndChildren(std::span<const pid_t> keep, Deadline deadline) {
  while (true) {
    const std::vector<pid_t> children = ChildrenBut(keep);
    // All of them first, as each takes its time.
    for (const pid_t child : children) ::kill(child, SIGKILL);
    std::size_t left = 0;
    for (const pid_t child : children) {
      const Result<UniqueFd> pidfd = OpenPidfd(child);
      if (pidfd.ok() && !WaitForEnd(*pidfd, deadline)) {
        ++left;
      } else {
        ::waitpid(child, nullptr, WNOHANG);
      }
    }
    if (children.empty() || left > 0 || deadline.passed()) return left;
  }
}

std::vector<pid_t> Descendants() {
  const std::vector<Process> processes = AllProcesses();
  std::vector<pid_t> found = {::getpid()};
  for (std::size_t next = 0; next < found.size(); ++next) {
    for (const Process& process : processes) {
      if (process.parent == found[next] && !Contains(found, process.pid)) {
        found.push_back(process.pid);
      }
    }
  }
  found.erase(found.begin());
  return found;
}

}  // namespace tfos
