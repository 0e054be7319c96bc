#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/operate/cluster_access.h"
#include "cli/operate/cluster_view.h"
#include "cli/operate/operate_commands.h"

namespace tfos::cli {
namespace {

int ShowStatus(const ClusterChoice& choice, bool as_json) {
  const auto cluster = ClusterAccess::Find(choice);
  if (!cluster.ok()) return Complain("status", cluster.status());
  const auto view = ClusterView::Ask(*cluster);
  if (!view.ok()) return Complain("status", view.status());
  std::cout << (as_json ? view->body() + '\n' : view->Table()) << std::flush;
  return view->has_failed() ? kFailed : kDone;
}

}  // namespace

void AddStatusCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("status", "Show the nodes of a running cluster");
  const auto choice = std::make_shared<ClusterChoice>();
  const auto as_json = std::make_shared<bool>(false);
  AddClusterChoice(*command, choice, true);
  command->add_flag("--json", *as_json, "Print JSON, as the coordinator's /v1/status");
  command->callback([choice, as_json, &exit_code] { exit_code = ShowStatus(*choice, *as_json); });
}

}  // namespace tfos::cli
