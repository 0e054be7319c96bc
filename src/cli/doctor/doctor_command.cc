#include "cli/doctor/doctor_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/format.h"
#include "base/time/deadline.h"

namespace tfos::cli {
namespace {

// A cold Python on a slow disk takes seconds; nothing here may hang for good.
constexpr std::chrono::seconds kCommandTimeout{60};
// It has a shorter deadline of its own (doctor_hdfs.py), and says at which step it passed.
constexpr std::chrono::seconds kHdfsTimeout{240};
// As a shell says that a program was not found.
constexpr int kNotFound = 127;

std::optional<std::string> GetEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<CapturedRun> RunCommand(const std::vector<std::string>& argv) {
  return RunAndCapture({.argv = argv}, Deadline::After(kCommandTimeout));
}

std::filesystem::path ThisExecutable() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

/// The report is the last line: warnings of the interpreter come before it.
std::string_view LastLine(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const auto newline = text.rfind('\n');
  return newline == std::string_view::npos ? text : text.substr(newline + 1);
}

int PrintSettings(const std::string& python, bool json, std::ostream& out) {
  std::vector<std::string> command = {python, "-m", "tfos.cli.doctor", "--settings"};
  if (json) command.emplace_back("--json");
  const auto run = RunCommand(command);
  if (!run.ok()) {
    out << run.status().ToString() << '\n';
    return 1;
  }
  out << run->output;
  return run->exit.success() ? 0 : 1;
}

}  // namespace

int RunDoctor(const DoctorOptions& options, std::ostream& out) {
  if (!options.cluster.empty()) {
    std::vector<std::string> arguments = {options.cluster};
    for (const std::string& setting : options.conf) {
      arguments.insert(arguments.end(), {"--conf", setting});
    }
    if (options.json) arguments.emplace_back("--json");
    return BecomePython("doctor", FindOwnPython(), "tfos.cli.doctor_cluster", arguments);
  }
  // As -P, which older Pythons don't know: one of these may be asked what it has.
  ::setenv("PYTHONSAFEPATH", "1", 1);
  if (options.settings) return PrintSettings(FindOwnPython(), options.json, out);
  const std::string python = FindPython();
  std::vector<Check> checks;
  if (options.hdfs.empty()) {
    checks = CheckHost(GetEnvironment, RunCommand);
    for (Check& check : CheckPython(python, RunCommand)) checks.push_back(std::move(check));
  } else {
    const auto run = [](const std::vector<std::string>& argv) {
      return RunAndCapture({.argv = argv}, Deadline::After(kHdfsTimeout));
    };
    checks = CheckPython(python, run, {"--hdfs", options.hdfs});
  }
  out << (options.json ? FormatAsJson(checks) : FormatAsText(checks));
  return AnyFailed(checks) ? 1 : 0;
}

void AddDoctorCommand(CLI::App& app, int& exit_code) {
  // Shared with the callback, which runs after this function has returned.
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App* command =
      app.add_subcommand("doctor", "Show what this host offers to a cluster, and what it lacks");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--settings", options->settings, "Instead print the table of settings");
  command
      ->add_option("--hdfs", options->hdfs,
                   "Instead check this directory on HDFS (hdfs://...) step by step")
      ->type_name("DIRECTORY");
  CLI::Option* cluster = command->add_option(
      "--cluster", options->cluster,
      "Instead check the hosts of a Spark cluster: spark://HOST:PORT, yarn or k8s://URL. On YARN "
      "and Kubernetes, only the hosts of as many executors as --conf spark.executor.instances=N "
      "asks for, by default 2");
  cluster->type_name("MASTER");
  command
      ->add_option("--conf", options->conf,
                   "With --cluster: a setting for Spark, as often as you like")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->needs(cluster);
  command->callback([options, &exit_code] { exit_code = RunDoctor(*options, std::cout); });
}

int BecomePython(const std::string& name, const std::string& python, const std::string& module,
                 const std::vector<std::string>& arguments) {
  // -P: the working directory may be anybody's, and hold a module of such a name.
  std::vector<std::string> words = {python, "-P", "-m", module};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  // For this one alone: it may start the tfos of another environment.
  ::unsetenv(kOwnPython);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  std::cerr << "tfos " << name << ": cannot run " << words[0] << ": " << std::strerror(errno)
            << "; run it as PYTHON -m " << module << ", with the Python that has tfos\n";
  return kNotFound;
}

std::string FindPython(const EnvironmentLookup& environment,
                       const std::filesystem::path& executable) {
  if (const auto chosen = environment("PYSPARK_PYTHON"); chosen && !chosen->empty()) {
    return *chosen;
  }
  for (auto directory = executable.parent_path(); directory.has_relative_path();
       directory = directory.parent_path()) {
    const auto python = directory / "bin" / "python3";
    std::error_code error;
    if (std::filesystem::exists(python, error)) return python.string();
  }
  return "python3";
}

std::string FindPython() { return FindPython(GetEnvironment, ThisExecutable()); }

std::string FindOwnPython() {
  if (const auto own = GetEnvironment(kOwnPython); own && !own->empty()) return *own;
  const auto nothing_set = [](const std::string&) { return std::optional<std::string>(); };
  return FindPython(nothing_set, ThisExecutable());
}

std::vector<Check> CheckPython(const std::string& python, const CommandRunner& run,
                               const std::vector<std::string>& arguments) {
  const auto failed = [&python](std::string found) {
    return std::vector<Check>{
        {CheckLevel::kFail, "Python packages", std::move(found),
         fmt::format("install tfos for {}, or set PYSPARK_PYTHON to the Python that has it",
                     python)}};
  };
  std::vector<std::string> command = {python, "-m", "tfos.cli.doctor"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto report = run(command);
  if (!report.ok() && report.status().kind() == ErrorKind::kRetryLater) {
    std::string words;
    for (const std::string& word : command) words += (words.empty() ? "" : " ") + word;
    return {{CheckLevel::kFail, "Python's checks", report.status().ToString(),
             fmt::format("run `{}` to see what holds it", words)}};
  }
  if (!report.ok() && report.status().kind() == ErrorKind::kNoResources) {
    return {{CheckLevel::kFail, "Python's checks", report.status().ToString(),
             "let this user have more processes: see `ulimit -u`, and pids.max of the container"}};
  }
  if (!report.ok()) return failed(report.status().ToString());
  auto checks = ParseChecks(LastLine(report->output));
  if (!checks.ok()) {
    return failed(fmt::format("{} -m tfos.cli.doctor {}: {}", python, report->exit.Describe(),
                              LastLine(report->output)));
  }
  return std::move(checks).value();
}

}  // namespace tfos::cli
