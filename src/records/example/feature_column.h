#ifndef TFOS_RECORDS_EXAMPLE_FEATURE_COLUMN_H_
#define TFOS_RECORDS_EXAMPLE_FEATURE_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "arrow/export.h"
#include "base/memory/buffer_pool.h"
#include "records/example/elements.h"
#include "records/example/value_buffer.h"
#include "records/schema/example_schema.h"
#include "records/schema/feature.h"
#include "tfos/status.h"

namespace tfos::records {

/// Which rows of a column are null. Costs nothing while none is.
///
/// Owner and lifetime: owns its bits until they are taken. Threads: one at a time.
class Validity {
 public:
  std::size_t size() const { return size_; }

  void Append(bool valid) {
    if (!valid || nulls_ != 0) AppendBit(valid);
    ++size_;
  }
  /// Drops what is behind the first `size`.
  void Truncate(std::size_t size);
  /// Moves the bits to the front of `field`'s buffers and sets its nulls.
  void Take(arrow::Field& field);

 private:
  void AppendBit(bool valid);

  std::size_t size_ = 0;
  std::size_t nulls_ = 0;
  ValueBuffer<std::uint8_t> bits_;  ///< Empty while there is no null.
};

/// One column of a table of examples, as it grows by one row after the other.
///
/// Owner and lifetime: owns its values until they are taken, and borrows the pool that their memory
/// is of. Threads: one at a time. Errors: kBadInput, naming the column, for a value that does not
/// fit it; kUnsupported when Arrow's offsets do not reach further. What a failed call has appended
/// stays until it is truncated.
class FeatureColumn {
 public:
  FeatureColumn(const ExampleColumn& column, BufferPool& pool);

  /// Appends a row of what the record has for it: a Feature, or the FeatureList for a list of
  /// lists.
  Status Append(std::span<const std::byte> value);
  /// Appends a row of bytes that are the value itself, to a column of strings or binary.
  Status AppendBytes(std::span<const std::byte> value);
  /// Appends a null, or fails where there may be none.
  Status AppendMissing();
  void AppendNull();

  std::size_t rows() const { return validity_.size(); }
  void Truncate(std::size_t rows);
  /// Gives the rows away and begins anew.
  arrow::Field Take();

 private:
  Status AppendFeatureList(std::span<const std::byte> list);
  /// Appends the values of `feature`, which has any.
  Status AppendValues(const Feature& feature);
  Status EndList(ValueBuffer<std::int32_t>& offsets, std::size_t end);
  Status Bad(std::string_view what) const;
  Status Bad(Problem problem) const;

  const ExampleColumn& column_;
  std::unique_ptr<Elements> elements_;
  Validity validity_;
  ValueBuffer<std::int32_t> outer_;  ///< kList, kListOfLists: where the row's lists begin.
  ValueBuffer<std::int32_t> inner_;  ///< kListOfLists.
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_EXAMPLE_FEATURE_COLUMN_H_
