#ifndef TFOS_BASE_MEMORY_CRC32C_H_
#define TFOS_BASE_MEMORY_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace tfos {

// CRC-32C (Castagnoli), by the processor's instructions where it has them. Threads: any.

/// The CRC of the bytes whose CRC is `crc` followed by `bytes`. The CRC of no bytes is 0.
std::uint32_t ExtendCrc32c(std::uint32_t crc, std::span<const std::byte> bytes);

inline std::uint32_t Crc32c(std::span<const std::byte> bytes) { return ExtendCrc32c(0, bytes); }

/// What TFRecord stores of a CRC. The CRC of data that holds its own CRC is a constant; that of
/// data that holds a masked one is not.
constexpr std::uint32_t MaskCrc(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

inline std::uint32_t MaskedCrc32c(std::span<const std::byte> bytes) {
  return MaskCrc(Crc32c(bytes));
}

/// The ways to compute it, for tests: each gives the same. Those that this processor lacks are
/// null.
using ExtendFunction = std::uint32_t (*)(std::uint32_t crc, const std::byte* data,
                                         std::size_t bytes);
struct Crc32cWay {
  const char* name;
  ExtendFunction extend;
};
std::span<const Crc32cWay> Crc32cWays();

}  // namespace tfos

#endif  // TFOS_BASE_MEMORY_CRC32C_H_
