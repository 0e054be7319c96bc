#include "cli/options/bounded_option.h"

#include "base/format.h"

namespace tfos::cli {

void AddSecondsOption(CLI::App& command, const std::string& name, double& seconds,
                      const std::string& help, double least, double most) {
  const std::string range = fmt::format("from {:g} to {:g}", least, most);
  const auto check = [=](const std::string& text) {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return good ? std::string() : fmt::format("{}; it must be {} seconds", text, range);
  };
  command.add_option(name, seconds, fmt::format("{}; {}", help, range))
      ->type_name("SECONDS")
      ->check(check)
      ->capture_default_str();
}

}  // namespace tfos::cli
