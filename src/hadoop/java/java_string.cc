#include "hadoop/java/java_string.h"

#include <cerrno>
#include <cstdint>

#include "base/text/utf8.h"

namespace tfos::hadoop {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr char32_t kFirstSupplementary = 0x10000;
constexpr char16_t kHighSurrogate = 0xD800;
constexpr char16_t kLowSurrogate = 0xDC00;
constexpr char16_t kSurrogateMask = 0xFC00;

void AppendUtf8(char32_t point, std::string& to) {
  const auto tail = [&](int shift) {
    to.push_back(static_cast<char>(0x80 | ((point >> shift) & 0x3F)));
  };
  if (point < 0x80) {
    to.push_back(static_cast<char>(point));
  } else if (point < 0x800) {
    to.push_back(static_cast<char>(0xC0 | (point >> 6)));
    tail(0);
  } else if (point < kFirstSupplementary) {
    to.push_back(static_cast<char>(0xE0 | (point >> 12)));
    tail(6);
    tail(0);
  } else {
    to.push_back(static_cast<char>(0xF0 | (point >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

Result<std::u16string> ToUtf16(std::string_view text) {
  if (!IsUtf8(text)) return Status::FromErrno(EINVAL, "a path is not UTF-8, as Hadoop's are");
  std::u16string units;
  units.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<std::uint8_t>(text[i++]);
    const int tails = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    char32_t point = tails == 0 ? lead : lead & (0x3Fu >> tails);
    for (int tail = 0; tail < tails; ++tail) {
      point = point << 6 | (static_cast<std::uint8_t>(text[i++]) & 0x3Fu);
    }
    if (point < kFirstSupplementary) {
      units.push_back(static_cast<char16_t>(point));
    } else {
      point -= kFirstSupplementary;
      units.push_back(static_cast<char16_t>(kHighSurrogate | (point >> 10)));
      units.push_back(static_cast<char16_t>(kLowSurrogate | (point & 0x3FF)));
    }
  }
  return units;
}

std::string ToUtf8(std::u16string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char32_t point = text[i];
    if ((point & kSurrogateMask) == kHighSurrogate && i + 1 < text.size() &&
        (text[i + 1] & kSurrogateMask) == kLowSurrogate) {
      point = kFirstSupplementary + ((point & 0x3FF) << 10) + (text[++i] & 0x3FFu);
    } else if (point >= kHighSurrogate && point < 0xE000) {
      point = kReplacement;
    }
    AppendUtf8(point, bytes);
  }
  return bytes;
}

}  // namespace tfos::hadoop
