#include "cli/python_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cassert>
#include <iterator>
#include <string>
#include <string_view>

#include "cli/doctor/doctor_command.h"

namespace tfos::cli {
namespace {

struct PythonCommand {
  std::string_view name;
  const char* module;
  const char* description;
};

constexpr PythonCommand kCommands[] = {
    {"completion", "tfos.cli.completion", "Print what completes command lines of tfos in a shell"},
    {"examples", "tfos.cli.examples", "Copy programs to start from into a folder"},
    {"infer", "tfos.cli.infer", "Run the rows of files through a SavedModel"},
    {"records", "tfos.cli.records", "Show, check, index and convert TFRecord files"},
    {"submit", "tfos.cli.submit", "Run a program on a cluster: spark-submit with what tfos needs"},
    {"tensorboard", "tfos.node.tensorboard", "Run TensorBoard over a directory, here or on HDFS"},
};

/// Null if no command in Python has this name.
const PythonCommand* Find(std::string_view name) {
  const auto* const found = std::ranges::find(kCommands, name, &PythonCommand::name);
  return found == std::end(kCommands) ? nullptr : found;
}

}  // namespace

std::string PythonModuleOf(std::string_view name) {
  const PythonCommand* const command = Find(name);
  return command == nullptr ? "" : command->module;
}

void AddPythonCommand(CLI::App& app, std::string_view name, int& exit_code) {
  const PythonCommand* const command = Find(name);
  assert(command != nullptr);
  CLI::App* added = app.add_subcommand(std::string(command->name), command->description);
  added->set_help_flag();
  added->prefix_command();
  added->callback([command, added, &exit_code] {
    // PYSPARK_PYTHON names the Python of the executors, which this host may lack.
    exit_code =
        BecomePython(added->get_name(), FindOwnPython(), command->module, added->remaining());
  });
}

}  // namespace tfos::cli
