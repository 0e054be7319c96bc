#ifndef TFOS_CLI_RECORDS_COMMAND_H_
#define TFOS_CLI_RECORDS_COMMAND_H_

namespace CLI {
class App;
}

namespace tfos::cli {

/// Adds `tfos records`: TFRecord files on the command line.
///
/// All of it is in Python (`python -m tfos.records_command`), where the other file formats are:
/// this process becomes that Python, with the arguments as they are, `--help` included.
/// `exit_code`, which must live until the command line was parsed, is set only when there is no
/// such Python.
void AddRecordsCommand(CLI::App& app, int& exit_code);

}  // namespace tfos::cli

#endif  // TFOS_CLI_RECORDS_COMMAND_H_
