#ifndef TFOS_CLI_DOCTOR_DOCTOR_COMMAND_H_
#define TFOS_CLI_DOCTOR_DOCTOR_COMMAND_H_

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "cli/doctor/check.h"
#include "cli/doctor/host_checks.h"

namespace CLI {
class App;
}

namespace tfos::cli {

struct DoctorOptions {
  bool json = false;      ///< A JSON array instead of lines for people.
  bool settings = false;  ///< The table of settings instead of checks.
  std::string hdfs;       ///< A directory of Hadoop's to use step by step, instead; "" for none.
  std::string cluster;    ///< A master of Spark whose hosts to check, instead; "" for none.
  std::vector<std::string> conf = {};  ///< KEY=VALUE of Spark's for that.
};

/// `tfos doctor`: says what this host and its Python offer, and what to do about what is missing.
///
/// Returns the exit code: 1 when a check failed, else 0. Threads: call from one.
int RunDoctor(const DoctorOptions& options, std::ostream& out);

/// Adds the subcommand to `app`: parsing a command line with it runs it and sets `exit_code`, which
/// must live until then.
void AddDoctorCommand(CLI::App& app, int& exit_code);

/// Becomes `python -m module arguments...`. Returns, with what a shell says of a program that was
/// not found, only when that failed, and has said so on standard error as `tfos name`.
int BecomePython(const std::string& name, const std::string& python, const std::string& module,
                 const std::vector<std::string>& arguments);

/// The interpreter that a cluster would use: PYSPARK_PYTHON, else `bin/python3` in the closest
/// directory above `executable` (its virtual environment), else `python3` on PATH.
std::string FindPython(const EnvironmentLookup& environment,
                       const std::filesystem::path& executable);

/// The same, of this process's environment and executable.
std::string FindPython();

/// Where the console script says which Python it is installed in.
inline constexpr char kOwnPython[] = "TFOS_PYTHON";

/// The Python that this tfos belongs to: the one of the console script, else the same as above
/// whatever PYSPARK_PYTHON names. That is for the executors, and this host may lack it.
std::string FindOwnPython();

/// The checks of `python -m tfos.cli.doctor` with `arguments`; one failed check when it could not
/// tell.
std::vector<Check> CheckPython(const std::string& python, const CommandRunner& run,
                               const std::vector<std::string>& arguments = {});

}  // namespace tfos::cli

#endif  // TFOS_CLI_DOCTOR_DOCTOR_COMMAND_H_
