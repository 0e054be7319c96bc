#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>

#include "base/files/output_file.h"
#include "base/format.h"
#include "cli/operate/cluster_access.h"
#include "cli/operate/operate_commands.h"

namespace tfos::cli {
namespace {

/// A report of many nodes takes the coordinator a while.
constexpr std::chrono::seconds kPatience(60);

int WriteReport(const ClusterChoice& choice, const std::string& path) {
  const auto cluster = ClusterAccess::Find(choice);
  if (!cluster.ok()) return Complain("report", cluster.status());
  auto file = OutputFile::Open(path);
  if (!file.ok()) return Complain("report", file.status());
  const auto html = cluster->Get("/v1/report", kPatience);
  if (!html.ok()) return Complain("report", html.status());
  const Status written = file->Write(*html);
  if (!written.ok()) return Complain("report", written);
  std::cout << fmt::format("{}: {} bytes\n", path, html->size()) << std::flush;
  return kDone;
}

}  // namespace

void AddReportCommand(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("report", "Write the page of a running cluster as one HTML file");
  const auto choice = std::make_shared<ClusterChoice>();
  const auto path = std::make_shared<std::string>("tfos-report.html");
  AddClusterChoice(*command, choice, true);
  command->add_option("-o,--output", *path, "File to write, replaced if it exists")
      ->type_name("FILE")
      ->capture_default_str();
  command->callback([choice, path, &exit_code] { exit_code = WriteReport(*choice, *path); });
}

}  // namespace tfos::cli
