#ifndef TFOS_BASE_TEXT_PRINTABLE_H_
#define TFOS_BASE_TEXT_PRINTABLE_H_

#include <algorithm>
#include <string>

namespace tfos {

/// A text of a program's, without what moves a terminal's cursor: a space for each control
/// character, the end of a line too. Threads: a pure function.
inline std::string Printable(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  return text;
}

}  // namespace tfos

#endif  // TFOS_BASE_TEXT_PRINTABLE_H_
