#ifndef TFOS_CLI_OPTIONS_BOUNDED_OPTION_H_
#define TFOS_CLI_OPTIONS_BOUNDED_OPTION_H_

#include <CLI/CLI.hpp>
#include <string>

namespace tfos::cli {

/// Adds an option that takes seconds, from `least` to `most`. The help and the complaint about
/// others say both as people write them. `seconds` holds the default, and must outlive the parse.
void AddSecondsOption(CLI::App& command, const std::string& name, double& seconds,
                      const std::string& help, double least, double most);

/// The same for a whole number, called `unit` in the help.
void AddNumberOption(CLI::App& command, const std::string& names, int& number,
                     const std::string& unit, const std::string& help, int least, int most);

}  // namespace tfos::cli

#endif  // TFOS_CLI_OPTIONS_BOUNDED_OPTION_H_
