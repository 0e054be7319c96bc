#ifndef TFOS_RECORDS_FRAMING_FRAMING_H_
#define TFOS_RECORDS_FRAMING_FRAMING_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tfos::records {

// What surrounds the data of a record: docs/formats/tfrecord.md.

inline constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
inline constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);
inline constexpr std::size_t kRecordHeaderBytes = kLengthBytes + kCrcBytes;
inline constexpr std::size_t kRecordFooterBytes = kCrcBytes;

// The files are little-endian, and so is all that this is built for.
static_assert(std::endian::native == std::endian::little);

template <typename T>
T LoadLittle(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void StoreLittle(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FRAMING_FRAMING_H_
