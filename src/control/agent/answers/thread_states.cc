#include "control/agent/answers/thread_states.h"

#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/format.h"
#include "base/process/process_state.h"

namespace tfos::control {
namespace {

constexpr std::size_t kMostThreads = 1000;

struct NamedCall {
  long number;
  std::string_view name;
};
/// What threads usually wait in.
constexpr NamedCall kCalls[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_readv, "readv"},
    {SYS_pread64, "pread64"},
    {SYS_futex, "futex"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect6"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_connect, "connect"},
    {SYS_accept4, "accept4"},
    {SYS_wait4, "wait4"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_fsync, "fsync"},
    {SYS_openat, "openat"},
    {SYS_flock, "flock"},
    {SYS_restart_syscall, "restart_syscall"},
    {SYS_ioctl, "ioctl"},
    {SYS_munmap, "munmap"},
#ifdef SYS_poll
    {SYS_poll, "poll"},
#endif
#ifdef SYS_select
    {SYS_select, "select"},
#endif
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll_wait"},
#endif
};

std::string_view StateInWords(char state) {
  switch (state) {
    case 'R':
      return "runs";
    case 'S':
      return "sleeps";
    case 'D':
      return "waits in the kernel";
    case 'T':
      return "is frozen";
    case 't':
      return "is frozen by a debugger";
    case 'Z':
    case 'X':
      return "has ended";
    case 'I':
      return "is idle";
    default:
      return "is in an unknown state";
  }
}

/// The system call of the text of /proc/PID/task/TID/syscall; empty where it says none.
std::string SystemCall(std::string_view text) {
  long number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return {};
  const auto* const known = std::ranges::find(kCalls, number, &NamedCall::number);
  if (known != std::end(kCalls)) return std::string(known->name);
  return fmt::format("system call {}", number);
}

std::string DescribeThread(const std::string& folder, pid_t thread) {
  const ProcessStat stat = ReadProcessStat(folder).value_or(ProcessStat{});
  std::string line = fmt::format("{:>8}  {:<15}  {}", thread, stat.name, StateInWords(stat.state));
  const std::string kernel = ReadProcFile(folder + "/wchan");
  if (!kernel.empty() && kernel != "0") line += fmt::format(", in {}", kernel);
  const std::string call = SystemCall(ReadProcFile(folder + "/syscall"));
  if (!call.empty()) line += fmt::format(" ({})", call);
  return line + fmt::format(", {:.2f} s of CPU\n", stat.cpu_seconds);
}

}  // namespace

std::string DescribeThreads(pid_t pid) {
  const std::string folder = fmt::format("/proc/{}/task", pid);
  std::vector<pid_t> threads;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    threads.push_back(thread);
  }
  if (threads.empty()) return fmt::format("there is no process {}\n", pid);
  std::ranges::sort(threads);
  std::string text;
  for (std::size_t i = 0; i < std::min(threads.size(), kMostThreads); ++i) {
    text += DescribeThread(fmt::format("{}/{}", folder, threads[i]), threads[i]);
  }
  if (threads.size() > kMostThreads) {
    text += fmt::format("and {} more\n", threads.size() - kMostThreads);
  }
  return text;
}

}  // namespace tfos::control
