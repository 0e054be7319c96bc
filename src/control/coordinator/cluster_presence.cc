#include "control/coordinator/cluster_presence.h"

#include <unistd.h>

#include <chrono>
#include <string_view>
#include <utility>

#include "base/crypto/purpose.h"
#include "base/logging.h"

namespace tfos::control {
namespace {

/// Where a process of this host reaches what listens there.
std::string AddressFromHere(std::string_view bound) {
  if (bound == "0.0.0.0" || bound == "::") return "127.0.0.1";  // Both are of both families.
  return std::string(bound);
}

std::int64_t WallMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void ClusterPresence::Begin(const StartCluster& start, std::uint16_t port, Clock::TimePoint now) {
  if (folders_.empty()) return;
  record_ = {.cluster_id = start.cluster_id,
             .name = start.name,
             .endpoint = {.address = AddressFromHere(start.bind_address), .port = port},
             .encrypt = start.encrypt,
             .key = KeyFor(start.token, Purpose::kOperate),
             .driver_pid = ::getppid(),
             .started_ms = WallMilliseconds()};
  checked_ = now;
  Write();
}

void ClusterPresence::Check(Clock::TimePoint now) {
  if (!file_.has_value() || now - checked_ < kInterval) return;
  checked_ = now;
  if (!file_->IsThere()) Write();
}

void ClusterPresence::Write() {
  Result<ClusterFile> file = ClusterFile::Write(folders_, record_);
  if (file.ok()) {
    file_ = std::move(file).value();
  } else {
    LogWarning("`tfos status` and its like won't find this cluster on its host: {}",
               file.status().ToString());
  }
}

}  // namespace tfos::control
