#include "net/own_unix.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/thread/mutex.h"
#include "net/socket.h"

namespace tfos::net {
namespace {

/// With the queue of a socket of this host: that of somebody who took its name may stay full.
constexpr std::chrono::seconds kPatience{2};

/// The names that were passed over, and may be again.
///
/// Owner and lifetime: the process's only one, never freed. Threads: any.
class PassedOver {
 public:
  static PassedOver& Instance() {
    static PassedOver* const instance = new PassedOver;
    return *instance;
  }

  bool Holds(std::string_view name) TFOS_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return names_.contains(name);
  }
  /// False when it was there.
  bool Add(std::string_view name) TFOS_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    // A process that outlives many clusters asks once more for each that is still there.
    if (names_.size() >= kMost) names_.clear();
    return names_.emplace(name).second;
  }
  void Remove(std::string_view name) TFOS_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (const auto found = names_.find(name); found != names_.end()) names_.erase(found);
  }

 private:
  static constexpr std::size_t kMost = 1024;

  Mutex mutex_;
  std::set<std::string, std::less<>> names_ TFOS_GUARDED_BY(mutex_);
};

}  // namespace

Status CheckUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return Status::FromErrno(errno, "ask who is at the other end of a Unix socket");
  }
  if (peer.uid == ::geteuid()) return {};
  return {ErrorKind::kBadInput,
          fmt::format("process {} at the other end belongs to user {}, and this one to user {}",
                      peer.pid, peer.uid, ::geteuid())};
}

Result<std::optional<UniqueFd>> ConnectOnlyOwnUnix(std::string_view name, const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(std::optional<UniqueFd> local, ConnectUnix(name, wait));
  if (local) TFOS_RETURN_IF_ERROR(CheckUser(local->get()));
  return local;
}

Result<std::optional<UniqueFd>> ConnectOwnUnix(std::string_view name, const Wait& wait) {
  PassedOver& passed_over = PassedOver::Instance();
  const Clock::Duration patience = passed_over.Holds(name) ? Clock::Duration{} : kPatience;
  auto local = ConnectOnlyOwnUnix(
      name, {.deadline = wait.deadline.Min(Deadline::After(patience)), .check = wait.check});
  if (local.ok()) {
    passed_over.Remove(name);
    return local;
  }
  const ErrorKind kind = local.status().kind();
  if (kind != ErrorKind::kBadInput && kind != ErrorKind::kRetryLater) return local;
  if (passed_over.Add(name)) {
    LogWarning("the socket {} is passed over, and TCP taken: {}", name, local.status().ToString());
  }
  return std::optional<UniqueFd>();
}

}  // namespace tfos::net
