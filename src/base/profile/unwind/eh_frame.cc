#include "base/profile/unwind/eh_frame.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

namespace tfos {
namespace {

/// Far more than any function needs; one that says more is broken.
constexpr std::uint64_t kMostEntryBytes = 1u << 20;
constexpr std::uint8_t kOmitted = 0xff;
/// Of the table that is searched: relative to its begin, 4 bytes with a sign. Linkers write no
/// other.
constexpr std::uint8_t kTableEncoding = 0x3b;
constexpr std::uint64_t kRowBytes = 8;

/// The bytes after the length at `address`; empty: they can't be read. The second is where they
/// begin.
std::pair<std::vector<std::byte>, std::uint64_t> ReadEntry(const ProcessMemory& memory,
                                                           std::uint64_t address) {
  std::array<std::byte, 4> head{};
  if (!memory.Read(address, head)) return {};
  const std::uint64_t length = DwarfReader(head).Unsigned(4);
  // A length of 64 bits (0xffffffff) is only for sections beyond 4 GiB.
  if (length < 4 || length > kMostEntryBytes) return {};
  std::vector<std::byte> bytes(static_cast<std::size_t>(length));
  if (!memory.Read(address + head.size(), bytes)) return {};
  return {std::move(bytes), address + head.size()};
}

/// What follows the fields of a CIE that begin with `z`. False: an unknown letter, whose data may
/// mean anything.
bool ReadAugmentation(std::string_view letters, DwarfReader& reader, FrameDescription& frame) {
  for (const char letter : letters) {
    switch (letter) {
      case 'R':
        frame.encoding = static_cast<std::uint8_t>(reader.Unsigned(1));
        break;
      case 'L':
        reader.Unsigned(1);
        break;
      case 'P': {
        const auto encoding = static_cast<std::uint8_t>(reader.Unsigned(1));
        // Only its length counts here: where it points is skipped.
        reader.Pointer(encoding & 0x0fU);
        break;
      }
      case 'S':
        frame.of_signal = true;
        break;
      case 'B':  // Which key signs return addresses, and that stacks are tagged.
      case 'G':
        break;
      default:
        return false;
    }
  }
  return true;
}

bool ReadCommon(FrameDescription& frame, std::uint64_t address) {
  DwarfReader reader(frame.common, address);
  if (reader.Unsigned(4) != 0) return false;
  const std::uint64_t version = reader.Unsigned(1);
  if (version != 1 && version != 3) return false;
  const std::string_view augmentation = reader.Text();
  frame.code_step = reader.Uleb();
  frame.data_step = reader.Sleb();
  frame.return_register = version == 1 ? reader.Unsigned(1) : reader.Uleb();
  std::uint64_t bytes = 0;
  if (augmentation.starts_with('z')) {
    bytes = reader.Uleb();
    const std::size_t begin = reader.at();
    if (!ReadAugmentation(augmentation.substr(1), reader, frame)) return false;
    // More than that belongs to letters that are not there.
    if (!reader.ok() || bytes < reader.at() - begin) return false;
    reader.Block(bytes - (reader.at() - begin));
  } else if (!augmentation.empty()) {
    return false;
  }
  frame.common_at = reader.at();
  return reader.ok();
}

bool ReadOwn(FrameDescription& frame, bool has_augmentation, std::uint64_t table) {
  DwarfReader reader(frame.own, frame.own_address);
  reader.Unsigned(4);  // Its CIE.
  frame.begin = reader.Pointer(frame.encoding, table);
  frame.end = frame.begin + reader.Pointer(frame.encoding & 0x0fU);
  if (has_augmentation) reader.Block(reader.Uleb());
  frame.own_at = reader.at();
  return reader.ok() && frame.begin < frame.end;
}

std::optional<FrameDescription> ReadFrame(const ProcessMemory& memory, std::uint64_t address,
                                          std::uint64_t table) {
  FrameDescription frame;
  std::tie(frame.own, frame.own_address) = ReadEntry(memory, address);
  const std::uint64_t back = DwarfReader(frame.own).Unsigned(4);
  // It counts from its own place; 0 would make this a CIE.
  if (frame.own.empty() || back == 0) return std::nullopt;
  std::uint64_t common_address = 0;
  std::tie(frame.common, common_address) = ReadEntry(memory, frame.own_address - back);
  if (frame.common.empty() || !ReadCommon(frame, common_address)) return std::nullopt;
  constexpr std::size_t kAugmentationAt = 5;
  const bool has_augmentation = frame.common[kAugmentationAt] == std::byte{'z'};
  if (!ReadOwn(frame, has_augmentation, table)) return std::nullopt;
  return frame;
}

/// Where the rows of the table are, sorted by the begin of functions.
struct Rows {
  std::uint64_t address = 0;
  std::uint64_t count = 0;
};

std::optional<Rows> ReadHeader(const ProcessMemory& memory, const FrameTable& table) {
  // With the longest pointers.
  std::array<std::byte, 20> bytes{};
  const auto head = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), table.size));
  if (!memory.Read(table.address, head)) return std::nullopt;
  DwarfReader reader(head, table.address);
  const std::uint64_t version = reader.Unsigned(1);
  const auto of_section = static_cast<std::uint8_t>(reader.Unsigned(1));
  const auto of_count = static_cast<std::uint8_t>(reader.Unsigned(1));
  const auto of_rows = static_cast<std::uint8_t>(reader.Unsigned(1));
  if (version != 1 || of_count == kOmitted || of_rows != kTableEncoding) return std::nullopt;
  if (of_section != kOmitted) reader.Pointer(of_section, table.address);
  Rows rows;
  rows.count = reader.Pointer(of_count, table.address);
  rows.address = table.address + reader.at();
  if (!reader.ok() || rows.count > (table.size - reader.at()) / kRowBytes) return std::nullopt;
  return rows;
}

}  // namespace

std::optional<FrameDescription> FindFrame(const ProcessMemory& memory, const FrameTable& table,
                                          std::uint64_t pc) {
  const std::optional<Rows> rows = ReadHeader(memory, table);
  if (!rows.has_value()) return std::nullopt;
  // The last row that begins no later.
  std::uint64_t low = 0, high = rows->count, found = 0;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    std::array<std::byte, kRowBytes> bytes{};
    if (!memory.Read(rows->address + middle * kRowBytes, bytes)) return std::nullopt;
    DwarfReader row(bytes);
    if (row.Pointer(kTableEncoding, table.address) > pc) {
      high = middle;
    } else {
      found = row.Pointer(kTableEncoding, table.address);
      low = middle + 1;
    }
  }
  if (found == 0) return std::nullopt;
  std::optional<FrameDescription> frame = ReadFrame(memory, found, table.address);
  if (!frame.has_value() || pc < frame->begin || pc >= frame->end) return std::nullopt;
  return frame;
}

}  // namespace tfos
