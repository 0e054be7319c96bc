#ifndef TFOS_RECORDS_FILES_RECORD_INDEX_H_
#define TFOS_RECORDS_FILES_RECORD_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "records/files/file_store.h"
#include "records/framing/record_reader.h"
#include "tfos/status.h"

namespace tfos::records {

/// A part of a file that can be read on its own.
struct FilePart {
  std::uint64_t begin_offset = 0;
  std::uint64_t end_offset = 0;
  std::uint64_t first_record = 0;  ///< The number of the record at the begin.
};

/// Where records of an uncompressed TFRecord file begin: docs/formats/tfrecord.md, "Index".
///
/// Owner and lifetime: a value. Threads: readable from several. Units: bytes; records from 0.
struct RecordIndex {
  struct Entry {
    std::uint64_t offset = 0;
    std::uint64_t record = 0;
  };

  std::uint64_t file_bytes = 0;
  std::uint64_t records = 0;
  std::uint32_t fingerprint = 0;
  std::vector<Entry> entries;

  std::string Serialize() const;
  /// kBadInput for bytes that aren't an index, kUnsupported for one of another version.
  static Result<RecordIndex> Parse(std::span<const std::byte> bytes);

  /// The file in parts of at least `part_bytes`, the last one excepted, which cover it without
  /// gaps; none for a file without records.
  std::vector<FilePart> Split(std::uint64_t part_bytes) const;

  /// What to read of a file of which others read what is before `begin` and from `end` on. It is
  /// from the first entry not before `begin` to the first one that is not before `end`. Parts that
  /// adjoin give every record once.
  FilePart Within(std::uint64_t begin, std::uint64_t end) const;

  /// kBadInput where a file of that size, with up to kFingerprintBytes at its ends, is not the one
  /// that the index was made of.
  Status CheckContent(std::string_view path, std::uint64_t bytes, std::span<const std::byte> head,
                      std::span<const std::byte> tail) const;
};

/// The fingerprint of a file with these bytes at its ends.
std::uint32_t FingerprintOf(std::span<const std::byte> head, std::span<const std::byte> tail);

/// The number of bytes at either end of a file that its fingerprint is made of.
inline constexpr std::size_t kFingerprintBytes = 4'096;
inline constexpr std::uint64_t kDefaultIndexInterval = std::uint64_t{1} << 20;

/// As many entries as an index has at most.
inline constexpr std::size_t kMostIndexEntries = std::size_t{1} << 24;

/// The name of the index of a file.
std::string IndexPathOf(std::string_view path);

/// Reads a file and says where its records begin: one entry for each `interval_bytes`,
/// or a larger multiple where there would be too many. Fails for damaged files.
Result<RecordIndex> IndexFile(const std::string& path,
                              std::uint64_t interval_bytes = kDefaultIndexInterval,
                              Validation validation = Validation::kFull,
                              const FileStore& files = LocalFiles());

/// Puts `index` beside the file; meanwhile a reader sees the old one or the new one.
Status SaveIndex(const RecordIndex& index, const std::string& path,
                 const FileStore& files = LocalFiles());

/// The index that lies beside the file, when it fits the file as it is now; else kBadInput.
Result<RecordIndex> LoadIndex(const std::string& path, const FileStore& files = LocalFiles());

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FILES_RECORD_INDEX_H_
