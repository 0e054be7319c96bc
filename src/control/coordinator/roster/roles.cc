#include "control/coordinator/roster/roles.h"

#include <algorithm>
#include <map>

namespace tfos::control {
namespace {

constexpr std::size_t kMaxNodes = 100'000;

}  // namespace

Result<std::vector<Role>> AssignRoles(std::span<const RoleCount> roles,
                                      std::span<const std::string> service_jobs) {
  std::vector<Role> assigned;
  std::map<std::string, int> next_task;
  for (const RoleCount& role : roles) {
    if (role.job.empty()) return Status(ErrorKind::kBadInput, "a role has no job name");
    if (static_cast<std::size_t>(role.count) > kMaxNodes - assigned.size()) {
      return Status(ErrorKind::kBadInput, "a cluster has at most " + std::to_string(kMaxNodes) +
                                              " nodes, and its roles ask for more");
    }
    const bool service = std::ranges::find(service_jobs, role.job) != service_jobs.end();
    for (int i = 0; i < role.count; ++i) {
      assigned.push_back(
          {.job_name = role.job, .task_index = next_task[role.job]++, .service = service});
    }
  }
  if (assigned.empty()) return Status(ErrorKind::kBadInput, "a cluster needs at least one node");
  return assigned;
}

}  // namespace tfos::control
