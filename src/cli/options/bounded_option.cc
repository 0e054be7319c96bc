#include "cli/options/bounded_option.h"

#include "base/format.h"

namespace tfos::cli {

namespace {

/// `what`: "seconds". Adds the option with a check that says the range as people write it.
template <typename Number>
void AddBounded(CLI::App& command, const std::string& names, Number& number,
                const std::string& type, const std::string& what, const std::string& help,
                Number least, Number most) {
  const std::string range = fmt::format("from {} to {}", least, most);
  const auto check = [=](const std::string& text) {
    Number value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return good ? std::string() : fmt::format("{}; it must be {}{}", text, range, what);
  };
  command.add_option(names, number, fmt::format("{}; {}", help, range))
      ->type_name(type)
      ->check(check)
      ->capture_default_str();
}

}  // namespace

void AddSecondsOption(CLI::App& command, const std::string& name, double& seconds,
                      const std::string& help, double least, double most) {
  AddBounded(command, name, seconds, "SECONDS", " seconds", help, least, most);
}

void AddNumberOption(CLI::App& command, const std::string& names, int& number,
                     const std::string& unit, const std::string& help, int least, int most) {
  AddBounded(command, names, number, unit, "", help, least, most);
}

}  // namespace tfos::cli
