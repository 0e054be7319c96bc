#ifndef TFOS_BASE_TEXT_UTF8_H_
#define TFOS_BASE_TEXT_UTF8_H_

#include <string_view>

namespace tfos {

/// Whether `text` is UTF-8 as RFC 3629 has it: no surrogates, nothing in more bytes than needed,
/// nothing beyond U+10FFFF. Threads: any.
bool IsUtf8(std::string_view text);

}  // namespace tfos

#endif  // TFOS_BASE_TEXT_UTF8_H_
