#ifndef TFOS_RECORDS_FILES_EXAMPLE_READER_H_
#define TFOS_RECORDS_FILES_EXAMPLE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrow/c_data.h"
#include "records/example/example_decoder.h"
#include "records/framing/record_reader.h"
#include "tfos/status.h"

namespace tfos::records {

/// What becomes of records that are damaged or do not fit the schema.
enum class BadRecords {
  kFailFast,       ///< The first one ends reading, with its error.
  kDropMalformed,  ///< They are left out and counted.
  kPermissive,     ///< Each is a row of nulls, and counted.
};

/// By Spark's names: "failfast", "dropmalformed", "permissive". kBadInput for another name.
Result<BadRecords> BadRecordsFrom(std::string_view name);

struct ExampleReaderOptions {
  BadRecords bad_records = BadRecords::kFailFast;
  bool keep_bad = false;  ///< kPermissive: keep the bytes of bad records, for TakeBad.
  /// A batch ends when it has so many rows ...
  std::size_t batch_rows = 8'192;
  /// ... or its records so many bytes.
  std::uint64_t batch_bytes = std::uint64_t{16} << 20;
};

/// A record that became a row of nulls.
struct BadRecord {
  std::size_t row = 0;  ///< Of its batch.
  std::string data;     ///< As it lies in the file.
};

struct ReadCounts {
  std::uint64_t records = 0;      ///< That became rows of values.
  std::uint64_t bad_records = 0;  ///< That did not.
  bool lost = false;              ///< A part of the file could not be read.
  std::string first_problem;      ///< The first error that did not end reading.
};

/// Reads a TFRecord file of tf.Examples as record batches.
///
/// Owner and lifetime: owns both its parts. Threads: one at a time.
/// Errors: kBadInput with file, record and offset; those of the source, in every mode.
class ExampleReader {
 public:
  ExampleReader(std::unique_ptr<RecordReader> records, std::unique_ptr<ExampleDecoder> decoder,
                ExampleReaderOptions options);

  /// The next rows as a struct array, which the caller releases; false at the end. A failure comes
  /// again when asked again.
  Result<bool> Next(ArrowSchema& schema, ArrowArray& array);

  /// Reads until the decoder has a whole batch; false when the file ended before. A failure comes
  /// again when asked again.
  Result<bool> Fill();
  /// What has the rows that were read and not taken.
  ExampleDecoder& decoder() { return *decoder_; }
  /// Gives the decoder away, with the rows that it has: for the next file. Nothing can be read any
  /// more.
  std::unique_ptr<ExampleDecoder> TakeDecoder() { return std::move(decoder_); }

  /// Those of the last batch, in the order of its rows, once.
  std::vector<BadRecord> TakeBad() { return std::exchange(bad_, {}); }

  const ReadCounts& counts() const { return counts_; }

 private:
  /// Reads a record and appends its row, if it gives one; false at the end.
  Result<bool> Step();
  /// A record that gives no row of values, for that reason; its data, as far as it was read.
  Status HandleBad(const Status& problem, std::span<const std::byte> data);

  std::unique_ptr<RecordReader> records_;
  std::unique_ptr<ExampleDecoder> decoder_;
  const ExampleReaderOptions options_;
  std::vector<BadRecord> bad_;
  std::uint64_t bad_bytes_ = 0;  ///< Of what is in `bad_` for the batch at hand.
  ReadCounts counts_;
  Status failed_;
  bool ended_ = false;
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_FILES_EXAMPLE_READER_H_
