#ifndef TFOS_CLI_COMMAND_TABLE_H_
#define TFOS_CLI_COMMAND_TABLE_H_

#include <CLI/CLI.hpp>
#include <string>

namespace tfos::cli {

/// All subcommands and options of `app`, as its parser has them, as a line of JSON:
///
///   {"name":"tfos","help":"...","module":"","running":"","options":[{"names":["-n","--lines"],
///    "help":"...","value":true,"choices":[],"running":""}],"commands":[...]}
///
/// `module` is the Python module that parses the command line of a subcommand; empty: `app` does.
/// `running` is what has the names that a command's argument, or an option's value, may be: "nodes"
/// or "clusters", as `tfos running-names` prints them; empty: nothing that runs.
/// Threads: a pure function.
std::string CommandTable(const CLI::App& app);

/// Adds the hidden subcommand `command-table`, of which `tfos completion` makes its scripts. Add it
/// last: it prints `app` as it is when it runs.
void AddCommandTableCommand(CLI::App& app);

}  // namespace tfos::cli

#endif  // TFOS_CLI_COMMAND_TABLE_H_
