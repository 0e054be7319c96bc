#ifndef TFOS_CONTROL_COORDINATOR_CLUSTER_PRESENCE_H_
#define TFOS_CONTROL_COORDINATOR_CLUSTER_PRESENCE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time/deadline.h"
#include "control/host/clusters/cluster_file.h"
#include "control/messages/driver_messages.h"

namespace tfos::control {

/// The file by which a cluster's user finds it on the coordinator's host, as long as the
/// coordinator lives.
///
/// Owner and lifetime: the coordinator's; its destructor removes the file. Threads: one at a time.
/// Errors: without a file the cluster runs all the same, and the log says why there is none.
class ClusterPresence {
 public:
  /// `folders`: see RuntimeFolders. Empty: no file is written.
  explicit ClusterPresence(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  void Begin(const StartCluster& start, std::uint16_t port, Clock::TimePoint now);
  /// Writes the file again if something has removed it. To be called often; looks once a minute.
  void Check(Clock::TimePoint now);

 private:
  static constexpr std::chrono::minutes kInterval{1};

  void Write();

  const std::vector<std::string> folders_;
  ClusterRecord record_;
  Clock::TimePoint checked_;
  std::optional<ClusterFile> file_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_CLUSTER_PRESENCE_H_
