// The index parser on arbitrary bytes: it refuses them, or its parts cover the file.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/memory/crc32c.h"
#include "records/files/record_index.h"

namespace {

void Check(std::span<const std::byte> bytes) {
  const auto index = tfos::records::RecordIndex::Parse(bytes);
  if (!index.ok()) return;
  if (index->Serialize().size() != bytes.size()) __builtin_trap();
  for (const std::uint64_t part_bytes : {std::uint64_t{1}, index->file_bytes / 3 + 1}) {
    std::uint64_t end = 0;
    for (const auto& part : index->Split(part_bytes)) {
      if (part.begin_offset != end || part.end_offset <= part.begin_offset) __builtin_trap();
      end = part.end_offset;
    }
    if (end != index->file_bytes) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Check(std::as_bytes(std::span(data, size)));
  // With the CRC that these bytes would have, which no fuzzer finds.
  std::vector<std::byte> bytes(size + sizeof(std::uint32_t));
  if (size != 0) std::memcpy(bytes.data(), data, size);
  const std::uint32_t crc = tfos::MaskedCrc32c(std::span<const std::byte>(bytes).first(size));
  std::memcpy(bytes.data() + size, &crc, sizeof crc);
  Check(bytes);
  return 0;
}
