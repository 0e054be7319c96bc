#ifndef TFOS_RECORDS_SCHEMA_WIRE_FORMAT_H_
#define TFOS_RECORDS_SCHEMA_WIRE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "records/framing/framing.h"

namespace tfos::records {

// The encoding of Protocol Buffers, as far as tf.Example needs it. Headers only: all of it is in
// the innermost loops.

enum class WireType : std::uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroup = 3,
  kGroupEnd = 4,
  kFixed32 = 5,
};

inline constexpr int kMostVarintBytes = 10;

/// The byte before a field of a number below 16.
constexpr std::byte TagByte(std::uint32_t field, WireType type) {
  return static_cast<std::byte>(field << 3 | static_cast<std::uint32_t>(type));
}

/// Reads a message from front to back.
///
/// Owner and lifetime: borrows the bytes. Threads: one at a time.
/// Errors: each method that reads returns false for bytes that aren't a message; what it would have
/// set is unspecified then, and so is where the reader is.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  bool done() const { return at_ == end_; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  const std::byte* at() const { return at_; }

  bool ReadVarint(std::uint64_t& value) {
    if (at_ != end_ && std::to_integer<std::uint8_t>(*at_) < 0x80) {
      value = std::to_integer<std::uint8_t>(*at_++);
      return true;
    }
    return ReadLongVarint(value);
  }

  bool ReadTag(std::uint32_t& field, WireType& type) {
    std::uint64_t tag = 0;
    if (!ReadVarint(tag) || tag > UINT32_MAX || tag < 8) return false;
    field = static_cast<std::uint32_t>(tag >> 3);
    type = static_cast<WireType>(tag & 7);
    return true;
  }

  /// What has its length before it: bytes, a message, packed numbers.
  bool ReadBytes(std::span<const std::byte>& bytes) {
    std::uint64_t length = 0;
    if (!ReadVarint(length) || length > left()) return false;
    bytes = {at_, static_cast<std::size_t>(length)};
    at_ += length;
    return true;
  }

  bool ReadFixed32(std::uint32_t& value) {
    if (left() < sizeof value) return false;
    value = Load<std::uint32_t>(at_);
    at_ += sizeof value;
    return true;
  }

  /// Takes the tag of field `number` and what it holds, if that comes next and is all that is left:
  /// the usual shape of what holds one thing.
  bool TakeOnly(std::byte tag, std::span<const std::byte>& bytes) {
    const std::byte* const begin = at_;
    if (left() >= 2 && *at_ == tag) {
      ++at_;
      if (ReadBytes(bytes) && done()) return true;
    }
    at_ = begin;
    return false;
  }

  /// Passes over the value of field `field`, whose tag was read.
  bool Skip(std::uint32_t field, WireType type, int depth = 0) {
    std::uint64_t ignored = 0;
    std::span<const std::byte> bytes;
    switch (type) {
      case WireType::kVarint:
        return ReadVarint(ignored);
      case WireType::kFixed64:
        return Advance(sizeof(std::uint64_t));
      case WireType::kFixed32:
        return Advance(sizeof(std::uint32_t));
      case WireType::kBytes:
        return ReadBytes(bytes);
      case WireType::kGroup:
        return SkipGroup(field, depth);
      case WireType::kGroupEnd:
        break;
    }
    return false;
  }

 private:
  static constexpr int kDeepestGroup = 32;

  bool ReadLongVarint(std::uint64_t& value) {
    value = 0;
    for (int i = 0; i < kMostVarintBytes && at_ != end_; ++i) {
      const auto byte = std::to_integer<std::uint64_t>(*at_++);
      value |= (byte & 0x7F) << (7 * i);
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool Advance(std::size_t bytes) {
    if (left() < bytes) return false;
    at_ += bytes;
    return true;
  }

  bool SkipGroup(std::uint32_t group, int depth) {
    if (depth == kDeepestGroup) return false;
    std::uint32_t field = 0;
    WireType type{};
    while (ReadTag(field, type)) {
      if (type == WireType::kGroupEnd) return field == group;
      if (!Skip(field, type, depth + 1)) return false;
    }
    return false;
  }

  const std::byte* at_;
  const std::byte* end_;
};

/// Calls `use(field, bytes)` for each field that has its length before it; passes over the others.
/// False if the bytes aren't a message, or `use` says false.
template <typename Use>
bool ForEachBytes(std::span<const std::byte> message, Use&& use) {
  WireReader reader(message);
  std::uint32_t field = 0;
  WireType type{};
  std::span<const std::byte> bytes;
  while (!reader.done()) {
    if (!reader.ReadTag(field, type)) return false;
    if (type != WireType::kBytes) {
      if (!reader.Skip(field, type)) return false;
    } else if (!reader.ReadBytes(bytes) || !use(field, bytes)) {
      return false;
    }
  }
  return true;
}

}  // namespace tfos::records

#endif  // TFOS_RECORDS_SCHEMA_WIRE_FORMAT_H_
