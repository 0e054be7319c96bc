#ifndef TFOS_CLI_COORDINATOR_COMMAND_H_
#define TFOS_CLI_COORDINATOR_COMMAND_H_

namespace CLI {
class App;
}  // namespace CLI

namespace tfos::cli {

/// `tfos coordinator`: forms and watches one cluster. The driver package starts it and talks to it
/// over its standard input and output; people don't.
///
/// Adds the subcommand to `app`: parsing a command line with it runs it and sets `exit_code`, which
/// must outlive the parsing.
void AddCoordinatorCommand(CLI::App& app, int& exit_code);

}  // namespace tfos::cli

#endif  // TFOS_CLI_COORDINATOR_COMMAND_H_
