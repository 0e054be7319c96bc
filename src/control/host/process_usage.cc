#include "control/host/process_usage.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "base/format.h"

namespace tfos::control {
namespace {

// Fields of /proc/PID/stat, counted from the one behind the name, which may hold spaces.
constexpr std::size_t kUserTicks = 11;
constexpr std::size_t kKernelTicks = 12;
constexpr std::size_t kResidentPages = 21;

}  // namespace

std::optional<ProcessUsage> ReadProcessUsage(pid_t pid, const std::string& proc_root) {
  std::ifstream file(fmt::format("{}/{}/stat", proc_root, pid));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream behind(text.substr(name_end + 1));
  std::string state;
  behind >> state;
  std::vector<std::int64_t> fields = {0};  // The state is field 0.
  for (std::int64_t field = 0; fields.size() <= kResidentPages && behind >> field;) {
    fields.push_back(field);
  }
  if (fields.size() <= kResidentPages) return std::nullopt;
  const auto ticks = static_cast<double>(fields[kUserTicks] + fields[kKernelTicks]);
  return ProcessUsage{.cpu_seconds = ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)),
                      .rss_bytes = fields[kResidentPages] * ::sysconf(_SC_PAGESIZE)};
}

}  // namespace tfos::control
