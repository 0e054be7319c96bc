#ifndef TFOS_BASE_MEMORY_BYTES_H_
#define TFOS_BASE_MEMORY_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "base/memory/unaligned.h"

// Messages as bytes: numbers one behind the other, the lowest byte first.

namespace tfos {

/// Appends the bytes of `value`, which has none that say nothing.
template <typename T>
  requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>)
void AppendBytes(const T& value, std::string& to) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// The bytes of `value`, to receive it into.
template <typename T>
  requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>)
std::span<std::byte> WritableBytesOf(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// Takes a message to pieces, from its front.
///
/// Owner and lifetime: borrows the bytes. Threads: one at a time.
/// Errors: sticky. Once a piece is missing, or the caller has refused one, every later piece is
/// empty or zero, and `complete` is false.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
    requires std::is_trivially_copyable_v<T>
  T Take() {
    const std::span<const std::byte> bytes = TakeBytes(sizeof(T));
    return bytes.empty() ? T{} : Load<T>(bytes.data());
  }

  /// Any value but 0 and 1 is refused.
  bool TakeFlag() {
    const auto value = Take<std::uint8_t>();
    if (value > 1) Refuse();
    return value == 1;
  }

  /// Any value beyond `last` is refused.
  template <typename Enum>
    requires std::is_enum_v<Enum>
  Enum TakeEnum(Enum last) {
    const auto value = Take<std::underlying_type_t<Enum>>();
    if (value > static_cast<std::underlying_type_t<Enum>>(last)) Refuse();
    return static_cast<Enum>(value);
  }

  std::span<const std::byte> TakeBytes(std::size_t count) {
    if (count > rest_.size()) {
      Refuse();
      return {};
    }
    const std::span<const std::byte> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::string TakeText(std::size_t bytes) {
    const std::span<const std::byte> text = TakeBytes(bytes);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  void Refuse() {
    refused_ = true;
    rest_ = {};
  }

  std::size_t left() const { return rest_.size(); }
  /// Whether all was taken, nothing was missing and nothing was refused.
  bool complete() const { return !refused_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool refused_ = false;
};

}  // namespace tfos

#endif  // TFOS_BASE_MEMORY_BYTES_H_
