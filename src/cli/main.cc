#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/agent_command.h"
#include "cli/command_table.h"
#include "cli/coordinator_command.h"
#include "cli/doctor/doctor_command.h"
#include "cli/native_stacks_command.h"
#include "cli/operate/operate_commands.h"
#include "cli/options/help_formatter.h"
#include "cli/parameter_server_command.h"
#include "cli/python_command.h"

namespace {

/// The exit code for a wrong command line, as shells and Python's argparse have it.
constexpr int kUsageError = 2;

/// "tfos stack: NODE is required".
std::string FailureMessage(const CLI::App* app, const CLI::Error& error) {
  std::string text = app->get_name();
  for (const CLI::App* command : app->get_subcommands()) text += ' ' + command->get_name();
  return text + ": " + CLI::FailureMessage::simple(app, error);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("tfos: TensorFlow clusters on Spark", "tfos");
  app.set_version_flag("--version", TFOS_VERSION);
  app.require_subcommand(1);
  app.failure_message(FailureMessage);
  app.formatter(std::make_shared<tfos::cli::HelpFormatter>());
  int exit_code = 0;
  // As --help lists them: first what one begins with, then a cluster that runs, then its data.
  tfos::cli::AddDoctorCommand(app, exit_code);
  tfos::cli::AddPythonCommand(app, "examples", exit_code);
  tfos::cli::AddPythonCommand(app, "submit", exit_code);
  tfos::cli::AddStatusCommand(app, exit_code);
  tfos::cli::AddTopCommand(app, exit_code);
  tfos::cli::AddLogsCommand(app, exit_code);
  tfos::cli::AddStackCommand(app, exit_code);
  tfos::cli::AddProfileCommand(app, exit_code);
  tfos::cli::AddReportCommand(app, exit_code);
  tfos::cli::AddStopCommand(app, exit_code);
  tfos::cli::AddPythonCommand(app, "tensorboard", exit_code);
  tfos::cli::AddPythonCommand(app, "records", exit_code);
  tfos::cli::AddPythonCommand(app, "infer", exit_code);
  tfos::cli::AddPythonCommand(app, "completion", exit_code);
  // Hidden: tfos itself starts them, or the shell's completion.
  tfos::cli::AddAgentCommand(app, exit_code);
  tfos::cli::AddCoordinatorCommand(app, exit_code);
  tfos::cli::AddParameterServerCommand(app, exit_code);
  tfos::cli::AddNativeStacksCommand(app);
  tfos::cli::AddRunningNamesCommand(app);
  tfos::cli::AddCommandTableCommand(app);
  // After the subcommands, which would inherit it.
  app.footer("tfos SUBCOMMAND --help shows what a subcommand takes.");
  // CLI11 would only say that a subcommand is missing, and not which word it does not know.
  const std::vector<CLI::App*> known = app.get_subcommands({});
  const auto is_named = [&](const CLI::App* subcommand) { return subcommand->check_name(argv[1]); };
  if (argc > 1 && argv[1][0] != '-' && std::ranges::none_of(known, is_named)) {
    std::cerr << "tfos: '" << argv[1] << "' is not a subcommand; there are:";
    for (const CLI::App* subcommand : known) {
      if (!subcommand->get_group().empty()) std::cerr << ' ' << subcommand->get_name();
    }
    std::cerr << '\n';
    return kUsageError;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version end here, too, with exit code 0.
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  return exit_code;
}
