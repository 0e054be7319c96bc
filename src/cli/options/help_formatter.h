#ifndef TFOS_CLI_OPTIONS_HELP_FORMATTER_H_
#define TFOS_CLI_OPTIONS_HELP_FORMATTER_H_

#include <CLI/CLI.hpp>
#include <string>

namespace tfos::cli {

/// Help that fits into a terminal of 80 columns: CLI11 writes each description as one line. Set it
/// before subcommands are added, which inherit it. Threads: any.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

}  // namespace tfos::cli

#endif  // TFOS_CLI_OPTIONS_HELP_FORMATTER_H_
