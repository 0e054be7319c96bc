#ifndef TFOS_RECORDS_FRAMING_RECORD_READER_H_
#define TFOS_RECORDS_FRAMING_RECORD_READER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "records/framing/byte_stream.h"
#include "tfos/status.h"

namespace tfos::records {

/// Which CRCs are compared.
enum class Validation {
  kNone,     ///< None: for data that was checked before.
  kLengths,  ///< Those of the lengths, which keep a reader from going astray.
  kFull,
};

/// By name: "none", "lengths", "full". kBadInput for another name.
Result<Validation> ValidationFrom(std::string_view name);

/// The longest record that any limit allows. Bytes; no machine has that much memory, and below it
/// no sum of lengths wraps.
inline constexpr std::uint64_t kLongestRecord = std::uint64_t{1} << 48;

struct RecordReaderOptions {
  Validation validation = Validation::kFull;
  /// Longer records are refused, before memory is got for them. Bytes; those over kLongestRecord
  /// are refused whatever it is.
  std::uint64_t max_record_bytes = std::uint64_t{1} << 30;
  /// What is read at once. Bytes; a few times the usual record, but not more than stays cached.
  std::size_t block_bytes = std::size_t{256} << 10;
  /// The source's first byte is this one of the (uncompressed) file, and a record begins there.
  std::uint64_t begin_offset = 0;
  /// No record that begins here or behind it is read.
  std::uint64_t end_offset = std::numeric_limits<std::uint64_t>::max();
  /// The number of the first record, for messages.
  std::uint64_t first_record = 0;
};

/// A record as it lies in the reader's memory, or in the source's, until the reader is asked for
/// the next one.
struct Record {
  std::span<const std::byte> data;
  std::uint64_t offset = 0;  ///< Of its length, in the uncompressed file.
  std::uint64_t number = 0;  ///< Counted from the file's first record.
};

/// Reads the records of a TFRecord file (docs/formats/tfrecord.md), one behind the other.
///
/// Owner and lifetime: owns its source. Threads: one at a time.
/// Errors: kBadInput with file, record and offset; and what the source says.
class RecordReader {
 public:
  explicit RecordReader(std::unique_ptr<ByteSource> source, RecordReaderOptions options = {});
  ~RecordReader();

  /// | returned      | lost()  | then                                                       |
  /// |---------------|---------|------------------------------------------------------------|
  /// | a record      | false   | valid until the next call                                  |
  /// | none          | false   | the end, also when asked again                             |
  /// | failed        | false   | the record's data is bad; the next call gives the next one |
  /// | failed        | true    | the rest can't be read; asked again, the same failure      |
  Result<std::optional<Record>> Next();

  /// Whether a failure was such that nothing behind it can be read.
  bool lost() const { return !lost_.ok(); }
  /// The data of the record that the last call refused for its CRC, until the next call; empty
  /// after any other outcome.
  std::span<const std::byte> damaged() const { return damaged_; }
  /// The offset and the number of the next record.
  std::uint64_t offset() const { return offset_; }
  std::uint64_t number() const { return number_; }
  const ByteSource& source() const { return *source_; }

 private:
  class Block;

  Status Bad(std::string_view what) const;
  Status Lose(Status status);
  std::string_view CompressionHint() const;

  std::unique_ptr<ByteSource> source_;
  RecordReaderOptions options_;
  std::unique_ptr<Block> block_;
  std::uint64_t offset_;
  std::uint64_t number_;
  std::span<const std::byte> damaged_;
  Status lost_;
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FRAMING_RECORD_READER_H_
