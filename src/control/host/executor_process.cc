#include "control/host/executor_process.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/format.h"

namespace tfos::control {
namespace {

struct ProcessFacts {
  std::string name;
  pid_t parent = 0;
};

/// From /proc/PID/stat: "PID (name) S PARENT ...", where the name may hold spaces and parentheses.
std::optional<ProcessFacts> ReadFacts(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || text.size() < close + 5) {
    return std::nullopt;
  }
  ProcessFacts facts{.name = text.substr(open + 1, close - open - 1)};
  const char* const digits = text.data() + close + 4;  // behind ") S "
  const auto parsed = std::from_chars(digits, text.data() + text.size(), facts.parent);
  if (parsed.ec != std::errc()) return std::nullopt;
  return facts;
}

bool IsJvm(const std::string& folder, const ProcessFacts& facts) {
  if (facts.name == "java") return true;
  // A thread may have renamed the process; the link is unreadable for another user's process.
  std::error_code unreadable;
  return std::filesystem::read_symlink(folder + "/exe", unreadable).filename() == "java";
}

}  // namespace

Result<pid_t> FindExecutorJvm(pid_t pid, const std::string& proc_root) {
  std::string seen;
  while (pid > 0) {  // In a container the JVM may be process 1.
    const std::string folder = fmt::format("{}/{}", proc_root, pid);
    const std::optional<ProcessFacts> facts = ReadFacts(folder);
    if (!facts.has_value()) break;
    if (IsJvm(folder, *facts)) return pid;
    seen += fmt::format("{}{} ({})", seen.empty() ? "" : " <- ", facts->name, pid);
    pid = facts->parent;
  }
  return Status(ErrorKind::kReconnect,
                fmt::format("found no Spark executor (a java process) above {}",
                            seen.empty() ? fmt::format("process {}, which has ended", pid) : seen));
}

}  // namespace tfos::control
