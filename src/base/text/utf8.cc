#include "base/text/utf8.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tfos {
namespace {

/// Bytes of the character at the front of `text`, which is not empty; 0 if it is none.
std::size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<std::uint8_t>(text[index]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t bytes = 0;
  // What the second byte may be rules out surrogates, too long forms and what lies beyond.
  std::uint8_t lowest = 0x80;
  std::uint8_t highest = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    bytes = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    bytes = 3;
    if (lead == 0xE0) lowest = 0xA0;
    if (lead == 0xED) highest = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    bytes = 4;
    if (lead == 0xF0) lowest = 0x90;
    if (lead == 0xF4) highest = 0x8F;
  } else {
    return 0;
  }
  if (text.size() < bytes || byte(1) < lowest || byte(1) > highest) return 0;
  for (std::size_t i = 2; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return bytes;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  while (!text.empty()) {
    std::uint64_t eight = 0;
    if (text.size() >= sizeof eight) {
      std::memcpy(&eight, text.data(), sizeof eight);
      if ((eight & kHighBits) == 0) {
        text.remove_prefix(sizeof eight);
        continue;
      }
    }
    const std::size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace tfos
