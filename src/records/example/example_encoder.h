#ifndef TFOS_RECORDS_EXAMPLE_EXAMPLE_ENCODER_H_
#define TFOS_RECORDS_EXAMPLE_EXAMPLE_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arrow/c_data.h"
#include "records/example/value_buffer.h"
#include "records/schema/feature.h"
#include "tfos/status.h"

namespace tfos::records {

/// Writes the rows of an Arrow record batch as serialized tf.Examples or SequenceExamples. What
/// becomes of which type is in docs/formats/tfrecord.md; the bytes are those that TensorFlow's
/// deterministic serialization gives.
///
/// Owner and lifetime: borrows the batch, which must outlive it and which nobody may change.
/// Threads: one at a time.
/// Errors: kBadInput, naming the column. `Open` refuses types without a counterpart and arrays that
/// are not built as their type wants, `Encode` nulls inside lists.
class ExampleEncoder {
 public:
  /// `first_row` is the number that errors give the first row of the batch.
  static Result<std::unique_ptr<ExampleEncoder>> Open(const ArrowSchema& schema,
                                                      const ArrowArray& batch, RecordType type,
                                                      std::uint64_t first_row = 0);
  ~ExampleEncoder();

  std::size_t rows() const { return rows_; }

  /// The record of a row, which there is. Valid until the next call.
  Result<std::span<const std::byte>> Encode(std::size_t row);

  /// All records as an array of binary, which the caller releases. kUnsupported when they are more
  /// than 2^31 - 1 bytes.
  Status EncodeAll(ArrowSchema& schema, ArrowArray& array);

 private:
  class Column;

  ExampleEncoder();

  /// Appends the record of a row.
  Status Append(std::size_t row, ValueBuffer<std::byte>& to);
  Result<std::size_t> Measure(std::uint64_t row, bool feature_lists);
  std::byte* WriteMap(std::uint64_t row, bool feature_lists, std::byte* to) const;

  RecordType type_ = RecordType::kExample;
  std::size_t rows_ = 0;
  std::uint64_t offset_ = 0;                      ///< Of row 0 in the columns.
  std::vector<std::unique_ptr<Column>> columns_;  ///< In the order of their names.
  ValueBuffer<std::byte> record_;
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_EXAMPLE_EXAMPLE_ENCODER_H_
