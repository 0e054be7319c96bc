#ifndef TFOS_BASE_MEMORY_UNALIGNED_H_
#define TFOS_BASE_MEMORY_UNALIGNED_H_

#include <bit>
#include <cstddef>
#include <cstring>

namespace tfos {

// Formats and protocols are little-endian, and so are the machines that this is built for.
static_assert(std::endian::native == std::endian::little);

/// The value at `at`, wherever that is: there are sizeof(T) bytes.
template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

/// Puts `value` into the sizeof(T) bytes at `at`.
template <typename T>
void Store(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof(T));
}

}  // namespace tfos

#endif  // TFOS_BASE_MEMORY_UNALIGNED_H_
