#ifndef TFOS_BASE_TEXT_QUERY_H_
#define TFOS_BASE_TEXT_QUERY_H_

#include <charconv>
#include <string_view>
#include <system_error>

// What follows the question mark of a request, such as `node=1&after=17`. Threads: any.
namespace tfos {

/// The part before `separator`, all of it if there is none. Takes both away from `text`.
inline std::string_view TakeUntil(char separator, std::string_view& text) {
  const std::size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return part;
}

/// False unless all of `text` is a decimal number from `least` to `most`.
template <typename Number>
bool ReadNumber(std::string_view text, Number least, Number most, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= least &&
         number <= most;
}

}  // namespace tfos

#endif  // TFOS_BASE_TEXT_QUERY_H_
