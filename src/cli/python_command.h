#ifndef TFOS_CLI_PYTHON_COMMAND_H_
#define TFOS_CLI_PYTHON_COMMAND_H_

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace tfos::cli {

/// Adds the subcommands that are all Python: `tfos infer`, `tfos records`, `tfos submit` and
/// others.
///
/// This process becomes `python -m tfos.<module>`, with the arguments as they are, `--help`
/// included. `exit_code`, which must live until the command line was parsed, is set only when
/// there is no such Python.
void AddPythonCommands(CLI::App& app, int& exit_code);

/// The module behind such a subcommand; empty for any other.
std::string PythonModuleOf(std::string_view name);

}  // namespace tfos::cli

#endif  // TFOS_CLI_PYTHON_COMMAND_H_
