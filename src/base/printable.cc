#include "base/printable.h"

#include <cstddef>

namespace tfos {
namespace {

bool IsBetween(char c, unsigned char first, unsigned char last) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= first && byte <= last;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    // U+0080 to U+009F, as UTF-8 has them: some terminals obey these, too.
    const bool is_long =
        text[i] == '\xc2' && i + 1 < text.size() && IsBetween(text[i + 1], 0x80, 0x9f);
    if (is_long) ++i;
    printable += is_long || IsBetween(text[i], 0, 31) || text[i] == 127 ? ' ' : text[i];
  }
  return printable;
}

std::string PrintableLines(std::string_view text, std::string_view indent) {
  std::string lines;
  while (true) {
    const std::size_t end = text.find('\n');
    lines += Printable(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    lines += '\n';
    lines += indent;
    text.remove_prefix(end + 1);
  }
}

}  // namespace tfos
