#include "cli/coordinator_command.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

#include "base/logging.h"
#include "base/process/descriptor_limit.h"
#include "base/process/pidfd.h"
#include "base/process/unique_fd.h"
#include "control/coordinator/coordinator.h"
#include "control/host/clusters/cluster_file.h"
#include "control/host/streams/non_blocking_twin.h"
#include "tfos/status.h"

namespace tfos::cli {
namespace {

int RunCoordinator() {
  SetUpLogging("coordinator", "INFO");
  ::signal(SIGPIPE, SIG_IGN);
  // A driver's terminal that takes nothing must not hold up the cluster.
  if (Status twin = control::StopWaitingForReadersOfStandardError(); !twin.ok()) {
    LogWarning("log lines wait for their reader: {}", twin.ToString());
  }
  if (Status raised = RaiseDescriptorLimit(); !raised.ok()) {
    LogWarning("keeping the limit of open files: {}", raised.ToString());
  }
  Result<UniqueFd> driver = OpenPidfd(::getppid());
  if (!driver.ok()) {
    LogWarning("the end of the input alone tells of the driver's: {}", driver.status().ToString());
  }
  return control::RunCoordinator({.input = UniqueFd(STDIN_FILENO),
                                  .output = UniqueFd(STDOUT_FILENO),
                                  .driver = driver.ok() ? std::move(*driver) : UniqueFd(),
                                  .set_up_logging =
                                      [](const std::string& cluster_id, const std::string& level) {
                                        SetUpLogging("coordinator cluster=" + cluster_id, level);
                                      },
                                  .runtime_folders = control::RuntimeFolders()});
}

}  // namespace

void AddCoordinatorCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "coordinator", "Form and watch one cluster (started by tfos itself on the driver)");
  command->group("");  // Not for people.
  command->callback([&exit_code] { exit_code = RunCoordinator(); });
}

}  // namespace tfos::cli
