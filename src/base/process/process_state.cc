#include "base/process/process_state.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/format.h"

namespace tfos {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

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
  const std::string status = ReadFile(folder + "status");
  if (status.empty()) {
    return Status(ErrorKind::kReconnect, fmt::format("there is no process {}", pid));
  }
  return ParseProcessState(status, ReadFile(folder + "wchan"));
}

bool IsEnding(pid_t pid) {
  constexpr unsigned kExiting = 0x4;  // PF_EXITING of the kernel's include/linux/sched.h.
  const std::string stat = ReadFile(fmt::format("/proc/{}/stat", pid));
  // PID (NAME) STATE PPID PGRP SESSION TTY TPGID FLAGS ...; a name may have anything in it.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return true;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 6; ++i) fields >> skipped;
  unsigned flags = 0;
  fields >> flags;
  return (flags & kExiting) != 0;
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
