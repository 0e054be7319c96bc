#ifndef TFOS_CONTROL_HOST_CLUSTERS_CLUSTER_RECORD_H_
#define TFOS_CONTROL_HOST_CLUSTERS_CLUSTER_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/crypto/secret.h"
#include "base/text/endpoint.h"
#include "tfos/status.h"

namespace tfos::control {

/// What its user needs to operate a running cluster (docs/formats/control-protocol.md, "Cluster
/// files").
///
/// Owner and lifetime: a value. Threads: plain data.
struct ClusterRecord {
  static constexpr std::size_t kMostBytes = 64u << 10;

  std::string cluster_id;
  std::string name;  ///< Of the application.
  Endpoint endpoint;
  std::string encrypt = "auto";
  Secret key;  ///< For `operate`.
  std::int64_t driver_pid = 0;
  std::int64_t started_ms = 0;  ///< By the wall's clock.

  /// Bad input, naming what is wrong and never the key, for anything else than `Serialize` writes.
  static Result<ClusterRecord> Parse(std::string_view text);
  std::string Serialize() const;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_CLUSTERS_CLUSTER_RECORD_H_
