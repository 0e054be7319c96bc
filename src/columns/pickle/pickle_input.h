#ifndef TFOS_COLUMNS_PICKLE_PICKLE_INPUT_H_
#define TFOS_COLUMNS_PICKLE_PICKLE_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/memory/unaligned.h"
#include "columns/pickle/opcodes.h"
#include "columns/pickle/pickle_value.h"

namespace tfos::columns {

/// What is left of a pickle.
///
/// Owner and lifetime: borrows the pickle. Threads: one at a time.
/// Errors: none where there are too few bytes; then nothing is taken. Units: bytes.
class PickleInput {
 public:
  explicit PickleInput(std::span<const std::byte> pickle)
      : at_(pickle.data()), end_(pickle.data() + pickle.size()) {}

  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  const std::byte* at() const { return at_; }
  /// There are so many bytes.
  void Skip(std::size_t bytes) { at_ += bytes; }

  /// Whether the next opcode is `opcode`.
  bool Follows(Opcode opcode) const { return at_ != end_ && static_cast<Opcode>(*at_) == opcode; }

  template <typename T>
  std::optional<T> Take() {
    if (left() < sizeof(T)) return std::nullopt;
    const T value = Load<T>(at_);
    at_ += sizeof(T);
    return value;
  }

  /// The integer of LONG1, behind the opcode.
  std::optional<std::int64_t> TakeLong() { return TakeLong(at_); }

  /// Takes BINFLOATs, opcodes included, for as long as there are any; returns how many.
  std::uint64_t SkipFloats() {
    const std::byte* const begin = at_;
    while (left() >= PickleRun::kFloatBytes && static_cast<Opcode>(*at_) == kBinFloat) {
      at_ += PickleRun::kFloatBytes;
    }
    return static_cast<std::uint64_t>(at_ - begin) / PickleRun::kFloatBytes;
  }

  /// Takes integers, opcodes included, for as long as there are any, into `ints`, which grows;
  /// returns how many.
  std::size_t TakeInts(std::vector<std::int64_t>& ints) {
    for (std::size_t count = 0;; ++count) {
      if (count == ints.size()) ints.resize(std::max<std::size_t>(1024, 2 * count));
      const std::byte* const next = TakeInt(ints[count]);
      if (next == nullptr) return count;
      at_ = next;
    }
  }

  /// The text before the next line end, which is taken with it.
  std::optional<std::string_view> TakeLine() {
    const void* const end = left() == 0 ? nullptr : std::memchr(at_, '\n', left());
    if (end == nullptr) return std::nullopt;
    const auto bytes = static_cast<std::size_t>(static_cast<const std::byte*>(end) - at_);
    const std::string_view line(reinterpret_cast<const char*>(at_), bytes);
    at_ += bytes + 1;
    return line;
  }

 private:
  /// The integer of LONG1 whose length is at `from`, which is set behind it.
  std::optional<std::int64_t> TakeLong(const std::byte*& from) const {
    if (from == end_) return std::nullopt;
    const auto bytes = static_cast<std::size_t>(*from);
    if (bytes > sizeof(std::int64_t) || static_cast<std::size_t>(end_ - from) < 1 + bytes) {
      return std::nullopt;
    }
    std::uint64_t number = 0;
    std::memcpy(&number, from + 1, bytes);
    from += 1 + bytes;
    if (bytes == 0) return 0;
    const auto shift = static_cast<int>(64 - 8 * bytes);
    return static_cast<std::int64_t>(number << shift) >> shift;
  }

  /// The integer whose opcode is the next. Returns what is behind it; null if there is none.
  const std::byte* TakeInt(std::int64_t& number) const {
    if (left() < 2) return nullptr;
    const std::byte* operand = at_ + 1;
    switch (static_cast<Opcode>(*at_)) {
      case kBinInt1:
        number = static_cast<std::int64_t>(*operand);
        return at_ + 2;
      case kBinInt2:
        if (left() < 3) return nullptr;
        number = Load<std::uint16_t>(operand);
        return at_ + 3;
      case kBinInt:
        if (left() < 5) return nullptr;
        number = Load<std::int32_t>(operand);
        return at_ + 5;
      case kLong1: {
        const auto taken = TakeLong(operand);
        if (!taken) return nullptr;
        number = *taken;
        return operand;
      }
      default:
        return nullptr;
    }
  }

  const std::byte* at_;
  const std::byte* const end_;
};

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_PICKLE_PICKLE_INPUT_H_
