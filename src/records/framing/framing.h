#ifndef TFOS_RECORDS_FRAMING_FRAMING_H_
#define TFOS_RECORDS_FRAMING_FRAMING_H_

#include <cstddef>
#include <cstdint>

#include "base/memory/unaligned.h"

namespace tfos::records {

// What surrounds the data of a record: docs/formats/tfrecord.md.

inline constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
inline constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);
inline constexpr std::size_t kRecordHeaderBytes = kLengthBytes + kCrcBytes;
inline constexpr std::size_t kRecordFooterBytes = kCrcBytes;

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FRAMING_FRAMING_H_
