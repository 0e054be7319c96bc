#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "base/time/deadline.h"
#include "cli/operate/cluster_access.h"
#include "cli/operate/cluster_view.h"
#include "cli/operate/operate_commands.h"
#include "cli/options/bounded_option.h"

namespace tfos::cli {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr double kMostSeconds = 24 * 3600.0;
/// Between two looks at a cluster that ends.
constexpr milliseconds kInterval(200);
/// Beyond the programs' time: for TERM, KILL, and what the kernel must free.
constexpr std::chrono::seconds kEndPatience(120);

Status AwaitEnd(const ClusterAccess& cluster, Deadline deadline) {
  while (true) {
    const auto view = ClusterView::Ask(cluster);
    if (!view.ok() && cluster.HasEnded(view.status())) return Status::Ok();
    if (!view.ok()) return view.status();
    if (view->has_ended()) return Status::Ok();
    if (deadline.passed()) {
      return Status(
          ErrorKind::kRetryLater,
          fmt::format(
              "the cluster has not ended yet. Its driver{} may be frozen or "
              "busy: ending the driver ends the cluster",
              cluster.driver_pid() == 0 ? "" : fmt::format(" (process {})", cluster.driver_pid())));
    }
    std::this_thread::sleep_for(kInterval);
  }
}

/// Asks all of them before it waits for any. The code is that of the first that did not end.
int StopClusters(const std::vector<ClusterAccess>& clusters,
                 std::chrono::duration<double> timeout) {
  const auto patience = duration_cast<milliseconds>(timeout);
  const Deadline deadline = Deadline::After(patience + kEndPatience);
  const std::string target = fmt::format("/v1/stop?by={}&timeout_ms={}", Asker(), patience.count());
  int code = kDone;
  const auto complain = [&code](const Status& status) {
    const int its_code = Complain("stop", status);
    if (code == kDone) code = its_code;
  };
  std::vector<const ClusterAccess*> ending;
  for (const ClusterAccess& cluster : clusters) {
    if (const auto asked = cluster.Post(target, kPatience); !asked.ok()) {
      const auto view = ClusterView::Ask(cluster);
      // Of several, one may have ended just now.
      if (clusters.size() == 1 || !view.ok() || !view->has_ended()) complain(asked.status());
      continue;
    }
    std::cout << fmt::format("cluster {} is asked to end\n", cluster.label()) << std::flush;
    ending.push_back(&cluster);
  }
  for (const ClusterAccess* cluster : ending) {
    if (const Status ended = AwaitEnd(*cluster, deadline); !ended.ok()) {
      complain(ended);
      continue;
    }
    std::cout << fmt::format("cluster {} has ended\n", cluster->label()) << std::flush;
  }
  return code;
}

int Stop(const ClusterChoice& choice, bool all, std::chrono::duration<double> timeout) {
  if (all) {
    const auto clusters = ClusterAccess::FindAll(choice.name);
    return clusters.ok() ? StopClusters(*clusters, timeout) : Complain("stop", clusters.status());
  }
  const auto cluster = ClusterAccess::Find(choice);
  return cluster.ok() ? StopClusters({*cluster}, timeout) : Complain("stop", cluster.status());
}

}  // namespace

void AddStopCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("stop", "End a running cluster");
  const auto choice = std::make_shared<ClusterChoice>();
  const auto seconds = std::make_shared<double>(60);
  const auto all = std::make_shared<bool>(false);
  AddClusterChoice(*command, choice, true);
  command
      ->add_flag("--all", *all,
                 "End all of your clusters that run on this host, or all that CLUSTER means")
      ->excludes("--link");
  AddSecondsOption(*command, "--timeout", *seconds,
                   "Time in which programs that Spark feeds may return by themselves", 0,
                   kMostSeconds);
  command->callback([choice, all, seconds, &exit_code] {
    exit_code = Stop(*choice, *all, std::chrono::duration<double>(*seconds));
  });
}

}  // namespace tfos::cli
