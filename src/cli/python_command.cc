#include "cli/python_command.h"

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "cli/doctor/doctor_command.h"

namespace tfos::cli {
namespace {

struct PythonCommand {
  const char* name;
  const char* module;
  const char* description;
};

constexpr PythonCommand kCommands[] = {
    {"completion", "tfos.cli.completion", "Print what completes command lines of tfos in a shell"},
    {"infer", "tfos.cli.infer", "Run the rows of files through a SavedModel"},
    {"records", "tfos.cli.records", "Show, check, index and convert TFRecord files"},
    {"submit", "tfos.cli.submit", "Run a program on a cluster: spark-submit with what tfos needs"},
    {"tensorboard", "tfos.node.tensorboard", "Run TensorBoard over a directory, here or on HDFS"},
};

/// For `tfos submit` PYSPARK_PYTHON names the Python of the executors, which this host may lack.
std::string PythonFor(const PythonCommand& command) {
  return std::string_view(command.name) == "submit" ? FindOwnPython() : FindPython();
}

}  // namespace

std::string PythonModuleOf(std::string_view name) {
  for (const PythonCommand& command : kCommands) {
    if (command.name == name) return command.module;
  }
  return "";
}

void AddPythonCommands(CLI::App& app, int& exit_code) {
  for (const PythonCommand& command : kCommands) {
    CLI::App* added = app.add_subcommand(command.name, command.description);
    added->set_help_flag();
    added->prefix_command();
    added->callback([&command, added, &exit_code] {
      exit_code =
          BecomePython(command.name, PythonFor(command), command.module, added->remaining());
    });
  }
}

}  // namespace tfos::cli
