#include "feed/feeder/nodes/node_fates.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <set>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/thread/mutex.h"
#include "net/poll.h"

namespace tfos::feed {
namespace {

using std::chrono::milliseconds;

/// A node whose host is gone counts as lost after spark.tfos.heartbeat.timeout, 10 s by default.
constexpr std::chrono::seconds kPatience{60};
constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{1'000};

/// By job, which of its nodes have ended. Of old jobs no feeder is left.
class EndedNodes {
 public:
  static EndedNodes& OfThisProcess() {
    static EndedNodes* const nodes = new EndedNodes;  // Never destroyed: threads may outlive main.
    return *nodes;
  }

  bool Contains(const JobId& job, std::uint32_t node) TFOS_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find(jobs_, job, &Job::first);
    return found != jobs_.end() && found->second.contains(node);
  }

  /// Returns those that were not known to have ended.
  std::set<std::uint32_t> Add(const JobId& job, const std::set<std::uint32_t>& nodes)
      TFOS_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    auto found = std::ranges::find(jobs_, job, &Job::first);
    if (found == jobs_.end()) {
      if (jobs_.size() == kMostJobs) jobs_.pop_front();
      found = jobs_.insert(jobs_.end(), Job{job, {}});
    }
    std::set<std::uint32_t> added;
    for (const std::uint32_t node : nodes) {
      if (found->second.insert(node).second) added.insert(node);
    }
    return added;
  }

 private:
  using Job = std::pair<JobId, std::set<std::uint32_t>>;
  static constexpr std::size_t kMostJobs = 64;

  Mutex mutex_;
  std::deque<Job> jobs_ TFOS_GUARDED_BY(mutex_);  ///< Oldest first.
};

std::string ThisHost() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "this host";
  return fmt::format("host {}", name.data());
}

}  // namespace

bool NodeFates::HasEnded(std::uint32_t node) const {
  return EndedNodes::OfThisProcess().Contains(options_.session.key.job, node);
}

Status NodeFates::Ask() {
  answered_ = false;
  if (!options_.ask_ended) return {};
  const Result<std::set<std::uint32_t>> ended = options_.ask_ended(options_.check);
  if (!ended.ok()) {
    // It may be busy. Nothing is done on its silence.
    return ended.status().kind() == ErrorKind::kRetryLater ? Status::Ok() : ended.status();
  }
  answered_ = true;
  for (const std::uint32_t node :
       EndedNodes::OfThisProcess().Add(options_.session.key.job, *ended)) {
    LogInfo("feed: node {} has ended, the coordinator says: it gets no more rows of this job",
            node);
  }
  return {};
}

Deadline NodeFates::Patience() const {
  return Deadline::After(std::min<milliseconds>(options_.progress_timeout, kPatience));
}

Status NodeFates::Pause(int round, const Deadline& deadline) const {
  const milliseconds pause = std::min(kLongestPause, kFirstPause * (1 << std::min(round, 10)));
  const Wait wait{.deadline = Deadline::After(pause).Min(deadline), .check = options_.check};
  return net::Poll(-1, 0, wait).status();
}

Status NodeFates::AwaitEnd(const Endpoint& node, const Status& cause) {
  const Deadline deadline = Patience();
  for (int round = 0; !HasEnded(node.node_id); ++round) {
    TFOS_RETURN_IF_ERROR(Ask());
    if (HasEnded(node.node_id)) break;
    if (deadline.passed() || !options_.ask_ended) return CannotReach(node, cause);
    TFOS_RETURN_IF_ERROR(Pause(round, deadline));
  }
  LogWarning("feed: partition {} goes on without node {}: {}", options_.session.key.partition,
             node.node_id, cause.ToString());
  return {};
}

Status NodeFates::CannotReach(const Endpoint& node, const Status& cause) const {
  const std::string where = node.host.empty() ? "this host" : fmt::format("host {}", node.host);
  const std::string known =
      answered_ ? fmt::format("node {} on {} runs, but {} can't reach it", node.node_id, where,
                              ThisHost())
                : fmt::format(
                      "{} can't reach node {} on {}, and the coordinator does not say "
                      "whether it runs",
                      ThisHost(), node.node_id, where);
  Status status(
      ErrorKind::kUnsupported,
      fmt::format(
          "feed partition {}: {}: {}. It may have rows of this partition, so no other node "
          "gets them. Let the executors' hosts connect to each other's TCP port{} (firewall, "
          "routes, spark.tfos.ports), and look at the node's log",
          options_.session.key.partition, known, cause.ToString(),
          node.port == 0 ? std::string() : fmt::format(" {}", node.port)));
  LogWarning("{}", status.ToString());
  return status;
}

}  // namespace tfos::feed
