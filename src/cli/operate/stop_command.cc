#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

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

int StopCluster(const ClusterChoice& choice, std::chrono::duration<double> timeout) {
  const auto cluster = ClusterAccess::Find(choice);
  if (!cluster.ok()) return Complain("stop", cluster.status());
  const auto patience = duration_cast<milliseconds>(timeout);
  const auto asked = cluster->Post(
      fmt::format("/v1/stop?by={}&timeout_ms={}", Asker(), patience.count()), kPatience);
  if (!asked.ok()) return Complain("stop", asked.status());
  std::cout << fmt::format("cluster {} is asked to end\n", cluster->label()) << std::flush;
  const Status ended = AwaitEnd(*cluster, Deadline::After(patience + kEndPatience));
  if (!ended.ok()) return Complain("stop", ended);
  std::cout << fmt::format("cluster {} has ended\n", cluster->label());
  return kDone;
}

}  // namespace

void AddStopCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("stop", "End a running cluster");
  const auto choice = std::make_shared<ClusterChoice>();
  const auto seconds = std::make_shared<double>(60);
  AddClusterChoice(*command, choice, true);
  AddSecondsOption(*command, "--timeout", *seconds,
                   "Time in which programs that Spark feeds may return by themselves", 0,
                   kMostSeconds);
  command->callback([choice, seconds, &exit_code] {
    exit_code = StopCluster(*choice, std::chrono::duration<double>(*seconds));
  });
}

}  // namespace tfos::cli
