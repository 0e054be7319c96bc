#include "cli/python_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/doctor_command.h"

namespace tfos::cli {
namespace {

// As a shell says that a program was not found.
constexpr int kNotFound = 127;

struct PythonCommand {
  const char* name;
  const char* module;
  const char* description;
};

constexpr PythonCommand kCommands[] = {
    {"infer", "tfos.cli.infer", "Run the rows of files through a SavedModel"},
    {"records", "tfos.cli.records", "Show, check, index and convert TFRecord files"},
    {"submit", "tfos.cli.submit", "Run a program on a cluster: spark-submit with what tfos needs"},
    {"tensorboard", "tfos.node.tensorboard", "Run TensorBoard over a directory, here or on HDFS"},
};

/// For `tfos submit` PYSPARK_PYTHON names the Python of the executors, which this host may lack.
std::string PythonFor(const PythonCommand& command) {
  return std::string_view(command.name) == "submit" ? FindOwnPython() : FindPython();
}

/// Becomes the command's Python; returns only when that failed.
int Run(const PythonCommand& command, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {PythonFor(command), "-m", command.module};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  std::cerr << "tfos " << command.name << ": cannot run " << words[0] << ": "
            << std::strerror(errno) << "; run it as PYTHON -m " << command.module
            << ", with the Python that has tfos\n";
  return kNotFound;
}

}  // namespace

void AddPythonCommands(CLI::App& app, int& exit_code) {
  for (const PythonCommand& command : kCommands) {
    CLI::App* added = app.add_subcommand(command.name, command.description);
    added->set_help_flag();
    added->prefix_command();
    added->callback(
        [&command, added, &exit_code] { exit_code = Run(command, added->remaining()); });
  }
}

}  // namespace tfos::cli
