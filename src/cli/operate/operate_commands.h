#ifndef TFOS_CLI_OPERATE_OPERATE_COMMANDS_H_
#define TFOS_CLI_OPERATE_OPERATE_COMMANDS_H_

#include <CLI/CLI.hpp>

namespace tfos::cli {

// What people do with a running cluster: one file each. Exit codes: cluster_access.h.

void AddStatusCommand(CLI::App& app, int& exit_code);
void AddTopCommand(CLI::App& app, int& exit_code);
void AddLogsCommand(CLI::App& app, int& exit_code);
void AddProfileCommand(CLI::App& app, int& exit_code);
void AddReportCommand(CLI::App& app, int& exit_code);
void AddStackCommand(CLI::App& app, int& exit_code);
void AddStopCommand(CLI::App& app, int& exit_code);

/// Hidden: a line for each node, or cluster, that runs; shells complete words by it.
void AddRunningNamesCommand(CLI::App& app);

}  // namespace tfos::cli

#endif  // TFOS_CLI_OPERATE_OPERATE_COMMANDS_H_
