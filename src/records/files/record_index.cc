#include "records/files/record_index.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/crypto/secret.h"
#include "base/format.h"
#include "base/memory/crc32c.h"
#include "records/framing/byte_stream.h"
#include "records/framing/framing.h"

namespace tfos::records {
namespace {

constexpr std::uint32_t kMagic = 0x58524654;  // "TFRX"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 32;
constexpr std::size_t kEntryBytes = 16;
constexpr std::size_t kMostEntries = kMostIndexEntries;

// Offsets in the header.
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kReservedAt = 6;
constexpr std::size_t kFileBytesAt = 8;
constexpr std::size_t kRecordsAt = 16;
constexpr std::size_t kFingerprintAt = 24;
constexpr std::size_t kEntriesAt = 28;

Status Bad(std::string_view what) {
  return {ErrorKind::kBadInput, fmt::format("this is not a valid index: {}", what)};
}

/// Up to `most` bytes of a file, from `offset`.
Result<std::string> ReadPart(const FileStore& files, const std::string& path, std::uint64_t offset,
                             std::uint64_t most) {
  TFOS_ASSIGN_OR_RETURN(const auto source, files.Open(path, offset));
  std::string bytes(most, 0);
  std::size_t used = 0;
  while (used < bytes.size()) {
    TFOS_ASSIGN_OR_RETURN(const std::size_t read,
                          source->Read(std::as_writable_bytes(std::span(bytes)).subspan(used)));
    if (read == 0) break;
    used += read;
  }
  bytes.resize(used);
  return bytes;
}

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Status WriteFile(const FileStore& files, const std::string& path,
                 std::span<const std::byte> bytes) {
  TFOS_ASSIGN_OR_RETURN(const auto sink, files.Create(path, Directories::kMustBeThere));
  TFOS_RETURN_IF_ERROR(sink->Write(bytes));
  return sink->Close();
}

/// The name, in the same directory, of a file that is not complete yet. Nobody can guess it, to put
/// a link there in a directory that others may write, nor does another writer take it.
Result<std::string> HiddenPathOf(std::string_view path) {
  constexpr std::size_t kRandomBytes = 16;
  TFOS_ASSIGN_OR_RETURN(const std::string random, RandomHex(kRandomBytes));
  const auto name = path.find_last_of('/') + 1;
  return fmt::format("{}.{}.{}.new", path.substr(0, name), path.substr(name), random);
}

/// The bytes at either end of a file.
struct Ends {
  std::string head;
  std::string tail;
};

Result<Ends> EndsOf(const FileStore& files, const std::string& path, std::uint64_t bytes) {
  const std::uint64_t end = std::min<std::uint64_t>(bytes, kFingerprintBytes);
  Ends ends;
  TFOS_ASSIGN_OR_RETURN(ends.head, ReadPart(files, path, 0, end));
  TFOS_ASSIGN_OR_RETURN(ends.tail, ReadPart(files, path, bytes - end, end));
  return ends;
}

}  // namespace

std::string RecordIndex::Serialize() const {
  std::string bytes(kHeaderBytes + entries.size() * kEntryBytes + kCrcBytes, 0);
  auto* const begin = reinterpret_cast<std::byte*>(bytes.data());
  Store(kMagic, begin);
  Store(kVersion, begin + kVersionAt);
  Store(file_bytes, begin + kFileBytesAt);
  Store(records, begin + kRecordsAt);
  Store(fingerprint, begin + kFingerprintAt);
  Store(static_cast<std::uint32_t>(entries.size()), begin + kEntriesAt);
  std::byte* at = begin + kHeaderBytes;
  for (const Entry& entry : entries) {
    Store(entry.offset, at);
    Store(entry.record, at + sizeof entry.offset);
    at += kEntryBytes;
  }
  Store(MaskedCrc32c({begin, at}), at);
  return bytes;
}

Result<RecordIndex> RecordIndex::Parse(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes + kCrcBytes) return Bad(fmt::format("{} bytes", bytes.size()));
  const std::byte* const begin = bytes.data();
  if (Load<std::uint32_t>(begin) != kMagic) return Bad("it does not begin like one");
  if (const auto version = Load<std::uint16_t>(begin + kVersionAt); version != kVersion) {
    return Status(
        ErrorKind::kUnsupported,
        fmt::format("the index has version {}; this build reads version {}", version, kVersion));
  }
  const std::size_t guarded = bytes.size() - kCrcBytes;
  if (MaskedCrc32c(bytes.first(guarded)) != Load<std::uint32_t>(begin + guarded)) {
    return Bad("its CRC is wrong");
  }
  const std::size_t count = Load<std::uint32_t>(begin + kEntriesAt);
  if (Load<std::uint16_t>(begin + kReservedAt) != 0 || count > kMostEntries ||
      guarded != kHeaderBytes + count * kEntryBytes) {
    return Bad(fmt::format("{} entries in {} bytes", count, bytes.size()));
  }
  RecordIndex index{.file_bytes = Load<std::uint64_t>(begin + kFileBytesAt),
                    .records = Load<std::uint64_t>(begin + kRecordsAt),
                    .fingerprint = Load<std::uint32_t>(begin + kFingerprintAt),
                    .entries = {}};
  if ((count == 0) != (index.records == 0) || (count == 0) != (index.file_bytes == 0)) {
    return Bad("its counts contradict each other");
  }
  index.entries.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const at = begin + kHeaderBytes + i * kEntryBytes;
    const Entry entry{Load<std::uint64_t>(at), Load<std::uint64_t>(at + sizeof(std::uint64_t))};
    const bool rises = i == 0 ? entry.offset == 0 && entry.record == 0
                              : entry.offset > index.entries.back().offset &&
                                    entry.record > index.entries.back().record;
    if (!rises || entry.offset >= index.file_bytes || entry.record >= index.records) {
      return Bad(fmt::format("entry {} is out of order", i));
    }
    index.entries.push_back(entry);
  }
  return index;
}

std::vector<FilePart> RecordIndex::Split(std::uint64_t part_bytes) const {
  std::vector<FilePart> parts;
  for (const Entry& entry : entries) {
    if (parts.empty() || entry.offset - parts.back().begin_offset >= part_bytes) {
      if (!parts.empty()) parts.back().end_offset = entry.offset;
      parts.push_back({entry.offset, file_bytes, entry.record});
    }
  }
  return parts;
}

FilePart RecordIndex::Within(std::uint64_t begin, std::uint64_t end) const {
  const auto from = [&](std::uint64_t offset) {
    return std::lower_bound(
        entries.begin(), entries.end(), offset,
        [](const Entry& entry, std::uint64_t other) { return entry.offset < other; });
  };
  const auto first = from(begin);
  const auto behind = from(end);
  const std::uint64_t end_offset = behind == entries.end() ? file_bytes : behind->offset;
  if (first == behind) return {end_offset, end_offset, records};
  return {first->offset, end_offset, first->record};
}

Status RecordIndex::CheckContent(std::string_view path, std::uint64_t bytes,
                                 std::span<const std::byte> head,
                                 std::span<const std::byte> tail) const {
  if (bytes == file_bytes && FingerprintOf(head, tail) == fingerprint) return Status::Ok();
  return {ErrorKind::kBadInput,
          fmt::format("{} was made of another content of {}: make it again, or delete it",
                      IndexPathOf(path), path)};
}

std::uint32_t FingerprintOf(std::span<const std::byte> head, std::span<const std::byte> tail) {
  return ExtendCrc32c(Crc32c(head), tail);
}

std::string IndexPathOf(std::string_view path) { return fmt::format("{}.tfindex", path); }

Result<RecordIndex> IndexFile(const std::string& path, std::uint64_t interval_bytes,
                              Validation validation, const FileStore& files) {
  RecordIndex index;
  TFOS_ASSIGN_OR_RETURN(index.file_bytes, files.SizeOf(path));
  const std::uint64_t interval =
      std::max({interval_bytes, std::uint64_t{1}, index.file_bytes / (kMostEntries - 1) + 1});
  TFOS_ASSIGN_OR_RETURN(auto source, files.Open(path, 0));
  RecordReader reader(std::move(source), {.validation = validation});
  std::uint64_t next = 0;
  while (true) {
    TFOS_ASSIGN_OR_RETURN(const auto record, reader.Next());
    if (!record) break;
    if (record->offset >= next) {
      index.entries.push_back({record->offset, record->number});
      next = record->offset / interval * interval + interval;
    }
  }
  index.records = reader.number();
  if (reader.offset() != index.file_bytes) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("{} changed while it was read; make its index again", path));
  }
  TFOS_ASSIGN_OR_RETURN(const Ends ends, EndsOf(files, path, index.file_bytes));
  index.fingerprint = FingerprintOf(BytesOf(ends.head), BytesOf(ends.tail));
  return index;
}

Status SaveIndex(const RecordIndex& index, const std::string& path, const FileStore& files) {
  const std::string final_path = IndexPathOf(path);
  TFOS_ASSIGN_OR_RETURN(const std::string new_path, HiddenPathOf(final_path));
  Status saved = WriteFile(files, new_path, BytesOf(index.Serialize()));
  if (saved.ok()) saved = files.Rename(new_path, final_path);
  // If that fails too, there is a file that readers pass over.
  if (!saved.ok()) static_cast<void>(files.Delete(new_path));
  return saved;
}

Result<RecordIndex> LoadIndex(const std::string& path, const FileStore& files) {
  const std::string index_path = IndexPathOf(path);
  constexpr std::size_t kMostBytes = kHeaderBytes + kMostEntries * kEntryBytes + kCrcBytes;
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t index_bytes, files.SizeOf(index_path));
  TFOS_ASSIGN_OR_RETURN(
      const std::string bytes,
      ReadPart(files, index_path, 0, std::min<std::uint64_t>(index_bytes, kMostBytes + 1)));
  Result<RecordIndex> index = RecordIndex::Parse(BytesOf(bytes));
  if (!index.ok()) return index.status().Annotate(fmt::format("{}: make it again", index_path));
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t file_bytes, files.SizeOf(path));
  TFOS_ASSIGN_OR_RETURN(const Ends ends, EndsOf(files, path, file_bytes));
  TFOS_RETURN_IF_ERROR(
      index->CheckContent(path, file_bytes, BytesOf(ends.head), BytesOf(ends.tail)));
  return index;
}

}  // namespace tfos::records
