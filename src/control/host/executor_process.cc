#include "control/host/executor_process.h"

#include <filesystem>

#include "base/format.h"
#include "base/process/process_state.h"

namespace tfos::control {
namespace {

bool IsJvm(const std::string& folder, const std::string& name) {
  if (name == "java") return true;
  // A thread may have renamed the process; the link is unreadable for another user's process.
  std::error_code unreadable;
  return std::filesystem::read_symlink(folder + "/exe", unreadable).filename() == "java";
}

}  // namespace

Result<pid_t> FindExecutorJvm(pid_t pid, const std::string& proc_root) {
  std::string seen;
  while (pid > 0) {  // In a container the JVM may be process 1.
    const std::string folder = fmt::format("{}/{}", proc_root, pid);
    const auto stat = ReadProcessStat(folder);
    if (!stat.has_value()) break;
    if (IsJvm(folder, stat->name)) return pid;
    seen += fmt::format("{}{} ({})", seen.empty() ? "" : " <- ", stat->name, pid);
    pid = stat->parent;
  }
  return Status(ErrorKind::kReconnect,
                fmt::format("found no Spark executor (a java process) above {}",
                            seen.empty() ? fmt::format("process {}, which has ended", pid) : seen));
}

}  // namespace tfos::control
