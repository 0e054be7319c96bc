#include <CLI/CLI.hpp>

#include "cli/agent_command.h"
#include "cli/coordinator_command.h"
#include "cli/doctor_command.h"

int main(int argc, char** argv) {
  CLI::App app("tfos: TensorFlow clusters on Spark", "tfos");
  app.set_version_flag("--version", TFOS_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  tfos::cli::AddAgentCommand(app, exit_code);
  tfos::cli::AddCoordinatorCommand(app, exit_code);
  tfos::cli::AddDoctorCommand(app, exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}
