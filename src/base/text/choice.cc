#include "base/text/choice.h"

#include <algorithm>

#include "base/format.h"

namespace tfos {

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return lower;
}

Status NotAChoice(std::string_view subject, std::span<const std::string_view> names,
                  std::string_view text) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) list += i + 1 == names.size() ? " or " : ", ";
    list += names[i].empty() ? "''" : names[i];
  }
  return {ErrorKind::kBadInput, fmt::format("{} must be {}, not '{}'", subject, list, text)};
}

}  // namespace tfos
