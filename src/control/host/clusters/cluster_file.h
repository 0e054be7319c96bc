#ifndef TFOS_CONTROL_HOST_CLUSTERS_CLUSTER_FILE_H_
#define TFOS_CONTROL_HOST_CLUSTERS_CLUSTER_FILE_H_

#include <string>
#include <utility>
#include <vector>

#include "base/process/unique_fd.h"
#include "control/host/clusters/cluster_record.h"
#include "tfos/status.h"

namespace tfos::control {

/// The folders in which clusters of this user leave their files, the first choice first:
/// `$TFOS_RUNTIME_DIR` alone if it is set, else `$XDG_RUNTIME_DIR/tfos` and `/tmp/tfos-UID`.
std::vector<std::string> RuntimeFolders();

/// The file by which a cluster's user finds it: readable by this user alone (0600), in a folder
/// that is (0700). A link, a folder or a file of another user, and one that others may read are
/// refused. It stays locked as long as its owner lives, so that a file whose owner was killed is
/// told from others.
///
/// Owner and lifetime: the coordinator's; its destructor removes the file. Threads: one at a time.
class ClusterFile {
 public:
  /// Writes into the first of the folders that can be used, and makes it if it is not there.
  /// Errors: why none can.
  static Result<ClusterFile> Write(const std::vector<std::string>& folders,
                                   const ClusterRecord& record);
  ClusterFile(ClusterFile&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  ClusterFile& operator=(ClusterFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    return *this;
  }
  ~ClusterFile();

  const std::string& path() const { return path_; }
  /// Whether it is where it was: what cleans up folders removes old files, and a user's last
  /// logout all of them.
  bool IsThere() const;

 private:
  ClusterFile(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  UniqueFd lock_;
};

/// What lies in the folders.
struct FoundClusters {
  std::vector<ClusterRecord> clusters = {};  ///< That run, the oldest first.
  /// What was not looked at, and why, for people.
  std::vector<std::string> refused = {};
  /// Clusters whose coordinator was killed. Their files have been removed.
  std::vector<std::string> dead = {};
};
FoundClusters FindClusters(const std::vector<std::string>& folders);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_CLUSTERS_CLUSTER_FILE_H_
