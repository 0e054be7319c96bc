#ifndef TFOS_CLI_PYTHON_COMMAND_H_
#define TFOS_CLI_PYTHON_COMMAND_H_

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace tfos::cli {

/// Adds the subcommand `name`, one of those that are all Python: `examples`, `infer`, `records` and
/// others.
///
/// This process becomes `python -m tfos.<module>`, with the arguments as they are, `--help`
/// included. `exit_code`, which must live until the command line was parsed, is set only when
/// there is no such Python.
void AddPythonCommand(CLI::App& app, std::string_view name, int& exit_code);

/// The module behind such a subcommand; empty for any other.
std::string PythonModuleOf(std::string_view name);

}  // namespace tfos::cli

#endif  // TFOS_CLI_PYTHON_COMMAND_H_
