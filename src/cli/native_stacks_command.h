#ifndef TFOS_CLI_NATIVE_STACKS_COMMAND_H_
#define TFOS_CLI_NATIVE_STACKS_COMMAND_H_

#include <CLI/CLI.hpp>

namespace tfos::cli {

/// Adds the hidden subcommand `native-stacks PID`, which prints the native calls that the threads
/// of a process are in, or why they are not known. An agent runs it for `tfos stack`: in a process
/// of its own, so that it traces nothing itself, and whatever the command meets harms nobody.
void AddNativeStacksCommand(CLI::App& app);

}  // namespace tfos::cli

#endif  // TFOS_CLI_NATIVE_STACKS_COMMAND_H_
