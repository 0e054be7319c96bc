#include "cli/records_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "cli/doctor_command.h"

namespace tfos::cli {
namespace {

// As a shell says that a program was not found.
constexpr int kNotFound = 127;

/// Becomes `python -m tfos.records_command arguments...`; returns only when that failed.
int RunRecords(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {FindPython(), "-m", "tfos.records_command"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  std::cerr << "tfos records: cannot run " << command[0] << ": " << std::strerror(errno)
            << "; set PYSPARK_PYTHON to the Python that has tfos\n";
  return kNotFound;
}

}  // namespace

void AddRecordsCommand(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("records", "Look at, check, index and convert TFRecord files");
  command->set_help_flag();
  command->prefix_command();
  command->callback([command, &exit_code] { exit_code = RunRecords(command->remaining()); });
}

}  // namespace tfos::cli
