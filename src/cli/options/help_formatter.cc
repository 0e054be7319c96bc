#include "cli/options/help_formatter.h"

#include <cstddef>
#include <sstream>

namespace tfos::cli {
namespace {

constexpr std::size_t kTerminalColumns = 80;

/// The words of `text` in lines of at most `width`, except where a word alone is longer.
std::string Wrapped(const std::string& text, std::size_t width) {
  std::string lines;
  std::size_t column = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > 0) {
      const bool fits = column + 1 + word.size() <= width;
      lines += fits ? ' ' : '\n';
      column = fits ? column + 1 : 0;
    }
    lines += word;
    column += word.size();
  }
  return lines;
}

}  // namespace

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return Wrapped(option->get_description(), kTerminalColumns - get_column_width());
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  std::ostringstream out;
  CLI::detail::format_help(
      out, command->get_name(),
      Wrapped(command->get_description(), kTerminalColumns - get_column_width()),
      get_column_width());
  return out.str();
}

}  // namespace tfos::cli
