#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "cli/operate/cluster_access.h"
#include "cli/operate/cluster_view.h"
#include "cli/operate/operate_commands.h"
#include "control/host/clusters/cluster_file.h"

namespace tfos::cli {
namespace {

/// A person waits for it with a finger on the key.
constexpr std::chrono::seconds kShortPatience(1);
constexpr std::string_view kNodes = "nodes";
constexpr std::string_view kClusters = "clusters";

/// A shell may expand what completes a word, so nothing that means something to one is offered.
bool IsPlain(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("._-:").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

void Offer(const std::string& name) {
  if (IsPlain(name)) std::cout << name << '\n';
}

/// Says nothing of what it can't reach: it runs in the middle of a line that somebody types.
void PrintNames(std::string_view kind) {
  const control::FoundClusters found = control::FindClusters(control::RuntimeFolders());
  for (const control::ClusterRecord& cluster : found.clusters) {
    if (kind == kClusters) {
      Offer(cluster.cluster_id);
      Offer(cluster.name);
      continue;
    }
    const auto access = ClusterAccess::Choose(found, {.name = cluster.cluster_id});
    if (!access.ok()) continue;
    const auto view = ClusterView::Ask(*access, kShortPatience);
    if (!view.ok()) continue;
    for (const std::string& name : view->NodeNames()) Offer(name);
  }
}

}  // namespace

void AddRunningNamesCommand(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("running-names", "Print the names of what runs, for completion");
  command->group("");
  const auto kind = std::make_shared<std::string>();
  command->add_option("KIND", *kind, "nodes or clusters")
      ->required()
      ->check(CLI::IsMember({std::string(kNodes), std::string(kClusters)}));
  command->callback([kind] { PrintNames(*kind); });
}

}  // namespace tfos::cli
