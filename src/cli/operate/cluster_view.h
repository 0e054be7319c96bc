#ifndef TFOS_CLI_OPERATE_CLUSTER_VIEW_H_
#define TFOS_CLI_OPERATE_CLUSTER_VIEW_H_

#include <chrono>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/operate/cluster_access.h"
#include "tfos/status.h"

namespace tfos::cli {

/// For the coordinator to answer at once.
inline constexpr std::chrono::seconds kPatience{10};

/// What the coordinator says of a cluster, for people.
///
/// Owner and lifetime: a value. Threads: one at a time.
class ClusterView {
 public:
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  /// Asks it, and waits for `patience`. Errors: those of ClusterAccess, and bug for an answer that
  /// nobody can read.
  static Result<ClusterView> Ask(const ClusterAccess& cluster,
                                 std::chrono::milliseconds patience = kPatience);
  /// Parses the body of /v1/status.
  static Result<ClusterView> Parse(std::string body);

  /// As it came.
  const std::string& body() const { return body_; }
  bool has_failed() const;
  /// Every node is done, failed, lost or stopped.
  bool has_ended() const;

  /// A line about the cluster, the table of its nodes, `most_lines` in all, and why it has failed.
  /// Lines are cut to `width` characters.
  std::string Table(std::size_t most_lines = kAll, std::size_t width = kAll) const;

  /// The number of a node that is called by it, or as "worker:1". Bad input, naming those that
  /// there are, for another.
  Result<int> NodeNumber(std::string_view name) const;
  /// All nodes', as "worker:1".
  std::vector<std::string> NodeNames() const;

 private:
  std::string body_;
  nlohmann::json status_;
};

}  // namespace tfos::cli

#endif  // TFOS_CLI_OPERATE_CLUSTER_VIEW_H_
