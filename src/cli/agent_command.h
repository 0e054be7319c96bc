#ifndef TFOS_CLI_AGENT_COMMAND_H_
#define TFOS_CLI_AGENT_COMMAND_H_

namespace CLI {
class App;
}  // namespace CLI

namespace tfos::cli {

/// `tfos agent`: supervises one node. A launch task starts it and talks to it over its standard
/// input and output; people don't.
///
/// The calling process returns 0 at once, so that its parent reaps it; the agent goes on in a
/// process and session of its own. Returns the exit code. Threads: the process must have only one.
int RunAgent();

/// Adds the subcommand to `app`: parsing a command line with it runs it and sets `exit_code`, which
/// must outlive the parsing.
void AddAgentCommand(CLI::App& app, int& exit_code);

}  // namespace tfos::cli

#endif  // TFOS_CLI_AGENT_COMMAND_H_
