#include "base/process/process_state.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <memory>
#include <sstream>

#include "base/format.h"

namespace tfos {
namespace {

// Fields of /proc/PID/stat, counted from the state, which is field 0.
constexpr std::size_t kParent = 1;
constexpr std::size_t kFlags = 6;
constexpr std::size_t kUserTicks = 11;
constexpr std::size_t kKernelTicks = 12;
constexpr std::size_t kResidentPages = 21;

struct CloseFile {
  void operator()(FILE* file) const { ::fclose(file); }
};

/// The value of the line `name:`; empty where there is none.
std::string_view Field(std::string_view status, std::string_view name) {
  while (!status.empty()) {
    const std::string_view line = status.substr(0, status.find('\n'));
    status.remove_prefix(std::min(status.size(), line.size() + 1));
    if (!line.starts_with(name) || line.substr(name.size()).substr(0, 1) != ":") continue;
    const std::string_view value = line.substr(name.size() + 1);
    const std::size_t first = value.find_first_not_of(" \t");
    return first == std::string_view::npos ? "" : value.substr(first);
  }
  return "";
}

}  // namespace

ProcessState ParseProcessState(std::string_view status, std::string_view wchan) {
  ProcessState state;
  if (const std::string_view letter = Field(status, "State"); !letter.empty()) {
    state.state = letter.front();
  }
  const std::string_view tracer = Field(status, "TracerPid");
  std::from_chars(tracer.data(), tracer.data() + tracer.size(), state.tracer);
  state.dumping_core = Field(status, "CoreDumping") == "1";
  if (wchan != "0") state.waits_in = wchan;
  return state;
}

Result<ProcessState> ReadProcessState(pid_t pid) {
  const std::string folder = fmt::format("/proc/{}/", pid);
  const std::string status = ReadProcFile(folder + "status");
  if (status.empty()) {
    return Status(ErrorKind::kReconnect, fmt::format("there is no process {}", pid));
  }
  return ParseProcessState(status, ReadProcFile(folder + "wchan"));
}

std::optional<ProcessStat> ParseProcessStat(std::string_view line) {
  // PID (NAME) STATE PARENT ...; a name may have anything in it.
  const std::size_t name = line.find('(');
  const std::size_t name_end = line.rfind(')');
  if (name == std::string_view::npos || name_end == std::string_view::npos || name_end < name) {
    return std::nullopt;
  }
  ProcessStat stat{.name = std::string(line.substr(name + 1, name_end - name - 1))};
  std::istringstream behind{std::string(line.substr(name_end + 1))};
  behind >> stat.state;
  std::array<std::int64_t, kResidentPages + 1> fields{};
  std::int64_t number = 0;
  for (std::size_t field = kParent; field < fields.size() && behind >> number; ++field) {
    fields[field] = std::max(number, std::int64_t{0});
  }
  stat.parent = static_cast<pid_t>(fields[kParent]);
  stat.flags = static_cast<unsigned>(fields[kFlags]);
  stat.cpu_seconds =
      (static_cast<double>(fields[kUserTicks]) + static_cast<double>(fields[kKernelTicks])) /
      static_cast<double>(::sysconf(_SC_CLK_TCK));
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const std::int64_t most_pages = std::numeric_limits<std::int64_t>::max() / page;
  stat.rss_bytes = std::min(fields[kResidentPages], most_pages) * page;
  return stat;
}

std::optional<ProcessStat> ReadProcessStat(const std::string& folder) {
  return ParseProcessStat(ReadProcFile(folder + "/stat"));
}

std::string ReadProcFile(const std::string& path) {
  const std::unique_ptr<FILE, CloseFile> file(::fopen(path.c_str(), "re"));
  std::string text;
  if (file == nullptr) return text;
  char part[4096];
  while (const std::size_t got = ::fread(part, 1, sizeof(part), file.get())) text.append(part, got);
  return text;
}

bool IsEnding(pid_t pid) {
  constexpr unsigned kExiting = 0x4;  // PF_EXITING of the kernel's include/linux/sched.h.
  const auto stat = ReadProcessStat(fmt::format("/proc/{}", pid));
  return !stat || (stat->flags & kExiting) != 0;
}

std::string DescribeStandstill(const ProcessState& state) {
  if (state.dumping_core) return "it has crashed, and the kernel writes its core dump";
  switch (state.state) {
    case 'T':
      return "it is frozen (stopped by SIGSTOP or SIGTSTP; SIGCONT lets it go on)";
    case 't':
      return fmt::format("it is frozen by a debugger (process {})", state.tracer);
    case 'D':
      return fmt::format(
          "it waits in the kernel{}{} for a disk, a file system or a device that does not answer",
          state.waits_in.empty() ? "" : ", in ", state.waits_in);
    case 'R':
      return "it could run, but gets no processor: its host or its control group is overloaded";
    case 'Z':
    case 'X':
      return "it has ended";
    default:
      return "it sleeps: its control group is frozen, its memory is swapped out, or its native "
             "code is in a deadlock";
  }
}

}  // namespace tfos
