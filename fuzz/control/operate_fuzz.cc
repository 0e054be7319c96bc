// The file by which a user's cluster is found, a request that operates it, what the kernel says of
// a thread, what nvidia-smi says of GPUs, and a node's profile, as any text. Each is refused or
// read, and a record that was read can be written. Of any profile there are tables and a file.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/process/process_state.h"
#include "base/profile/stack_profile.h"
#include "cli/operate/profile_report.h"
#include "control/coordinator/operations.h"
#include "control/host/clusters/cluster_record.h"
#include "control/host/gpus/gpu_lease.h"
#include "control/host/gpus/gpu_usage.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto record = tfos::control::ClusterRecord::Parse(text);
  if (record.ok() && !tfos::control::ClusterRecord::Parse(record->Serialize()).ok()) std::abort();
  const auto query = tfos::control::OperationQuery::Parse(text);
  if (query.ok() && (query->after < -1 || query->lines < 0 || query->wait.count() < 0)) {
    std::abort();
  }
  if (const auto stat = tfos::ParseProcessStat(text);
      stat.has_value() && (stat->cpu_seconds < 0 || stat->rss_bytes < 0)) {
    std::abort();
  }
  tfos::control::GpuUsageReader gpus(2);
  const tfos::Clock::TimePoint now;
  const bool read = gpus.Add(text, now).ok();
  if (const auto usage = gpus.Latest(now); usage.has_value()) {
    const double utilization = usage->utilization.value_or(0);
    if (!read || utilization < 0 || utilization > 1) std::abort();
    if (usage->memory_bytes.value_or(0) < 0) std::abort();
  }
  if (auto listed = tfos::control::ParseGpuList(std::string(text)); listed.ok()) {
    tfos::control::MarkGpusInUse(std::string(text), *listed);
  }
  if (const auto profile = tfos::StackProfile::Parse(text); profile.ok()) {
    if (!tfos::StackProfile::Parse(profile->Serialize()).ok()) std::abort();
    if (tfos::cli::ProfileTables(*profile, "worker:0").empty()) std::abort();
    if (tfos::cli::SpeedscopeFile(*profile, "worker:0").empty()) std::abort();
  }
  return 0;
}
