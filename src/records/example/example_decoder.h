#ifndef TFOS_RECORDS_EXAMPLE_EXAMPLE_DECODER_H_
#define TFOS_RECORDS_EXAMPLE_EXAMPLE_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arrow/c_data.h"
#include "arrow/export.h"
#include "base/memory/buffer_pool.h"
#include "records/example/feature_column.h"
#include "records/example/key_finder.h"
#include "records/schema/example_schema.h"
#include "records/schema/feature.h"
#include "tfos/status.h"

namespace tfos::records {

/// Gathers records, which are serialized tf.Examples or SequenceExamples, or bytes that are taken
/// as they are, into columns of Arrow. What becomes of which Feature is in
/// docs/formats/tfrecord.md.
///
/// Owner and lifetime: owns what it has gathered until it is taken. Threads: one at a time; what
/// was taken may be released by any. Cost: up to BufferPool::kMostKeptBytes are kept for the next
/// rows. Errors: kBadInput for records that aren't such messages or do not fit the schema, naming
/// the column. A record that failed leaves nothing behind: go on with the next one.
class ExampleDecoder {
 public:
  /// kBadInput when the schema has columns that such records cannot have.
  static Result<std::unique_ptr<ExampleDecoder>> Create(ExampleSchema schema, RecordType type);

  ExampleDecoder(const ExampleDecoder&) = delete;
  ExampleDecoder& operator=(const ExampleDecoder&) = delete;

  /// Appends a row. `record` is not referred to afterwards.
  Status Add(std::span<const std::byte> record);
  /// Appends a row of nulls, in place of a record that could not be read. kBadInput where a column
  /// allows none.
  Status AddNulls();

  std::size_t rows() const { return rows_; }
  /// The bytes of the records that were added: about what the columns take.
  std::uint64_t bytes() const { return bytes_; }
  const ExampleSchema& schema() const { return schema_; }

  /// Hands the rows on as a struct with a child for each column, and begins anew.
  arrow::Field Take();
  /// The same as a struct array. The caller releases both.
  void Take(ArrowSchema& schema, ArrowArray& array);

 private:
  ExampleDecoder(ExampleSchema schema, RecordType type);

  /// Finds what the record has for each column.
  Status Parse(std::span<const std::byte> record);
  Status Append(std::span<const std::byte> record);

  const ExampleSchema schema_;
  const RecordType type_;
  BufferPool pool_;  ///< Gets the memory of rows back when their taker is done with it.
  std::vector<FeatureColumn> columns_;
  KeyFinder features_;
  KeyFinder feature_lists_;
  /// What the record at hand has for each column; without an address: nothing.
  std::vector<std::span<const std::byte>> values_;
  std::size_t rows_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_EXAMPLE_EXAMPLE_DECODER_H_
