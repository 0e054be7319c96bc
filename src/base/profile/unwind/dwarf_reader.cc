#include "base/profile/unwind/dwarf_reader.h"

#include <algorithm>

namespace tfos {
namespace {

// How a pointer is written, and what it counts from (LSB, "DWARF Exception Header Encoding").
constexpr unsigned kAbsolute = 0x00, kUleb = 0x01, kData2 = 0x02, kData4 = 0x03, kData8 = 0x04,
                   kSleb = 0x09, kSigned2 = 0x0a, kSigned4 = 0x0b, kSigned8 = 0x0c;
constexpr unsigned kFromItsPlace = 0x10, kFromData = 0x30;

}  // namespace

void DwarfReader::Fail() {
  ok_ = false;
  at_ = bytes_.size();
}

std::uint64_t DwarfReader::Unsigned(std::size_t size) {
  if (size > bytes_.size() - at_) {
    Fail();
    return 0;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value |= std::to_integer<std::uint64_t>(bytes_[at_ + i]) << (8 * i);
  }
  at_ += size;
  return value;
}

std::int64_t DwarfReader::Signed(std::size_t size) {
  const std::size_t above = 64 - 8 * size;
  return static_cast<std::int64_t>(Unsigned(size) << above) >> above;
}

std::uint64_t DwarfReader::Uleb() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; ok_; shift += 7) {
    const std::uint64_t byte = Unsigned(1);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return 0;
}

std::int64_t DwarfReader::Sleb() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; ok_;) {
    const std::uint64_t byte = Unsigned(1);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    shift = std::min(shift + 7, 70U);
    if ((byte & 0x80) != 0) continue;
    if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }
  return 0;
}

std::span<const std::byte> DwarfReader::Block(std::uint64_t size) {
  if (size > bytes_.size() - at_) {
    Fail();
    return {};
  }
  const auto block = bytes_.subspan(at_, static_cast<std::size_t>(size));
  at_ += block.size();
  return block;
}

std::string_view DwarfReader::Text() {
  const auto left = rest();
  const auto end = std::ranges::find(left, std::byte{0});
  if (end == left.end()) {
    Fail();
    return {};
  }
  const auto size = static_cast<std::size_t>(end - left.begin());
  at_ += size + 1;
  return {reinterpret_cast<const char*>(left.data()), size};
}

std::uint64_t DwarfReader::Pointer(std::uint8_t encoding, std::uint64_t data) {
  std::uint64_t base = 0;
  // The others, and pointers to pointers (0x80), occur in personality routines alone.
  switch (encoding & 0xf0U) {
    case kAbsolute:
      break;
    case kFromItsPlace:
      base = address_ + at_;
      break;
    case kFromData:
      base = data;
      break;
    default:
      Fail();
      return 0;
  }
  switch (encoding & 0x0fU) {
    case kAbsolute:
    case kData8:
    case kSigned8:
      return base + Unsigned(8);
    case kUleb:
      return base + Uleb();
    case kSleb:
      return base + static_cast<std::uint64_t>(Sleb());
    case kData2:
      return base + Unsigned(2);
    case kData4:
      return base + Unsigned(4);
    case kSigned2:
      return base + static_cast<std::uint64_t>(Signed(2));
    case kSigned4:
      return base + static_cast<std::uint64_t>(Signed(4));
    default:
      Fail();
      return 0;
  }
}

void DwarfReader::Skip(std::int64_t bytes) {
  const auto at = static_cast<std::int64_t>(at_);
  // `at` and the room are far below the limits of the type, and so is a difference of them.
  if (bytes < -at || bytes > static_cast<std::int64_t>(bytes_.size()) - at) {
    Fail();
  } else {
    at_ = static_cast<std::size_t>(at + bytes);
  }
}

}  // namespace tfos
