#ifndef TFOS_CLI_PARAMETER_SERVER_COMMAND_H_
#define TFOS_CLI_PARAMETER_SERVER_COMMAND_H_

#include <CLI/CLI.hpp>

namespace tfos::cli {

/// `tfos parameter-server`: a node of job `ps` that an agent has started, or, if a person starts it
/// with its settings on its standard input, a server that ends with that input
/// (docs/formats/parameter-server-protocol.md).
void AddParameterServerCommand(CLI::App& app, int& exit_code);

}  // namespace tfos::cli

#endif  // TFOS_CLI_PARAMETER_SERVER_COMMAND_H_
