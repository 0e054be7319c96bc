#ifndef TFOS_BASE_TEXT_CHOICE_H_
#define TFOS_BASE_TEXT_CHOICE_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tfos/status.h"

// What a text may be, where it is one of a few words. Threads: any.
namespace tfos {

/// A word that may be given, and what it stands for. A value; borrows the word.
template <typename Value>
struct Choice {
  std::string_view name;
  Value value;
};

/// Whether `DROP` is `drop`.
enum class LetterCase { kCounts, kIgnored };

/// With the letters A to Z as a to z; others stay.
std::string LowerCase(std::string_view text);

/// Bad input: "SUBJECT must be A, B or C, not 'TEXT'". An empty name is shown as ''.
Status NotAChoice(std::string_view subject, std::span<const std::string_view> names,
                  std::string_view text);

/// What `text` stands for. Bad input that begins with `subject` unless it is one of `choices`.
template <typename Value, std::size_t N>
Result<Value> ChoiceNamed(std::string_view subject, const Choice<Value> (&choices)[N],
                          std::string_view text, LetterCase letters = LetterCase::kCounts) {
  const bool lower = letters == LetterCase::kIgnored;
  std::vector<std::string_view> names;
  for (const Choice<Value>& choice : choices) {
    if (lower ? LowerCase(choice.name) == LowerCase(text) : choice.name == text) {
      return choice.value;
    }
    names.push_back(choice.name);
  }
  return NotAChoice(subject, names, text);
}

/// The word for `value`; an empty one where none stands for it.
template <typename Value, std::size_t N>
constexpr std::string_view ChoiceName(const Choice<Value> (&choices)[N], Value value) {
  for (const Choice<Value>& choice : choices) {
    if (choice.value == value) return choice.name;
  }
  return {};
}

}  // namespace tfos

#endif  // TFOS_BASE_TEXT_CHOICE_H_
