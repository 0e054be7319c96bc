#ifndef TFOS_CLI_OPERATE_CLUSTER_ACCESS_H_
#define TFOS_CLI_OPERATE_CLUSTER_ACCESS_H_

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "control/ask/http_get.h"
#include "control/host/clusters/cluster_file.h"
#include "tfos/status.h"

namespace tfos::cli {

// The exit codes of all commands that operate a cluster.

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;    ///< The cluster has failed, or there is none.
inline constexpr int kUsage = 2;     ///< The command line or the link is wrong.
inline constexpr int kNoAnswer = 3;  ///< The coordinator, or a node's agent, does not answer.

/// The code for a failure of the functions below: kUsage for bad input, kNoAnswer for reconnect and
/// retry-later, else kFailed.
int ExitCodeOf(const Status& status);
/// Says it on standard error, and returns its code.
int Complain(std::string_view command, const Status& status);

/// The name of the one that asks, for others: "alice@host-a".
std::string Asker();

/// Which cluster the user means.
struct ClusterChoice {
  std::string name;   ///< Of the application, or how its id begins. Empty: the only one.
  bool link = false;  ///< Take a link instead of a file of this host.
  /// How to give the name, for people: "tfos status CLUSTER".
  std::string usage = {};
};
/// Adds CLUSTER, or the option `--cluster` where the command's argument is something else, and
/// `--link`. The command's callback must keep the choice.
void AddClusterChoice(CLI::App& command, const std::shared_ptr<ClusterChoice>& choice,
                      bool as_argument);
/// Adds NODE, which the command needs. `node` must outlive the parse.
void AddNode(CLI::App& command, std::string& node);

/// A running cluster, as far as this process may reach it.
///
/// Owner and lifetime: a value. Threads: one at a time.
/// Errors of all calls, for people: unsupported where no cluster runs, or the coordinator refuses
/// what can't be. Bad input where several run, and for a wrong name, link or key. Reconnect or
/// retry-later where the coordinator does not answer.
class ClusterAccess {
 public:
  /// Finds it by a file of this host, or reads a link from the terminal or standard input.
  static Result<ClusterAccess> Find(const ClusterChoice& choice);
  /// All of this host that `name` means, as in ClusterChoice, the oldest first: one at least.
  static Result<std::vector<ClusterAccess>> FindAll(const std::string& name);
  /// Chooses among the files that were found.
  static Result<ClusterAccess> Choose(const control::FoundClusters& found,
                                      const ClusterChoice& choice);
  /// Takes `http://HOST:PORT/#key=KEY`, which opens what is read, or `tfos://HOST:PORT/#key=KEY`,
  /// which opens all.
  static Result<ClusterAccess> FromLink(std::string_view link);

  /// What the coordinator answers.
  Result<std::string> Get(const std::string& target, std::chrono::milliseconds patience) const;
  Result<std::string> Post(const std::string& target, std::chrono::milliseconds patience) const;

  /// Whether the cluster has ended, now that a request has met `failed`: nothing listens at its
  /// address. Where the answer was cut, or the host was not reached, it asks again until `patience`
  /// is over, as a coordinator that ends stops listening at its end.
  bool HasEnded(const Status& failed, std::chrono::milliseconds patience = kRefusalPatience) const;

  const control::CoordinatorAddress& address() const { return address_; }
  /// For people: the id, or the address.
  const std::string& label() const { return label_; }
  /// The process id of the driver on this host; 0: not known.
  std::int64_t driver_pid() const { return driver_pid_; }

 private:
  static Result<ClusterAccess> Of(const control::ClusterRecord& chosen);

  static constexpr std::chrono::seconds kRefusalPatience{5};

  control::CoordinatorAddress address_;
  std::string path_;  ///< In front of each target, for a page behind a proxy.
  std::string label_;
  std::int64_t driver_pid_ = 0;
};

}  // namespace tfos::cli

#endif  // TFOS_CLI_OPERATE_CLUSTER_ACCESS_H_
