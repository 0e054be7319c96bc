#ifndef TFOS_BASE_PRINTABLE_H_
#define TFOS_BASE_PRINTABLE_H_

#include <string>
#include <string_view>

namespace tfos {

/// A text of a program's, without what moves a terminal's cursor: a space for each control
/// character, the end of a line too. Threads: a pure function.
std::string Printable(std::string_view text);

/// The same of a text of several lines, which stay. `indent` begins each but the first.
std::string PrintableLines(std::string_view text, std::string_view indent = "");

}  // namespace tfos

#endif  // TFOS_BASE_PRINTABLE_H_
