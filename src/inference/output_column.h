#ifndef TFOS_INFERENCE_OUTPUT_COLUMN_H_
#define TFOS_INFERENCE_OUTPUT_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arrow/export.h"
#include "inference/planned_output.h"
#include "records/example/value_buffer.h"
#include "tensorflow/session_api.h"
#include "tfos/status.h"

namespace tfos::inference {

/// Why an output can't become a column; none if it can.
std::optional<std::string> OutputMismatch(const TensorSpec& tensor);

/// An output of a model as it becomes a column of Arrow, in types that Spark has too: those without
/// a sign become the next wider ones, those of 16 bits float32. A value of n dimensions is n lists,
/// one inside the other.
///
/// Owner and lifetime: owns its values until they are taken; borrows `output`. Threads: one at a
/// time. Errors: kBadInput for tensors that are not one value for each row, and strings in a
/// column of text that are not UTF-8; kUnsupported beyond 2^31 - 1 elements.
class OutputColumn {
 public:
  explicit OutputColumn(const PlannedOutput& output);

  /// The type alone.
  static arrow::Field Type(const PlannedOutput& output);

  /// Appends the first `kept` of a tensor's `rows` rows. The tensor is not referred to afterwards.
  Status Append(const tensorflow::SessionApi& api, const TF_Tensor* tensor, std::uint64_t rows,
                std::uint64_t kept);

  Result<arrow::Field> Take();

 private:
  /// Values of one shape behind each other.
  struct Part {
    std::uint64_t rows = 0;
    std::vector<std::uint64_t> shape;  ///< Of one of them.
  };

  Status AppendStrings(const tensorflow::SessionApi& api, const TF_Tensor* tensor,
                       std::uint64_t count);
  Status AppendNumbers(const tensorflow::SessionApi& api, const TF_Tensor* tensor,
                       std::uint64_t count);
  Status Bad(std::string what) const;
  arrow::Field TakeValues();

  const PlannedOutput& output_;
  int dtype_;  ///< Of the elements of the column, a TF_DataType.
  std::size_t element_bytes_;
  std::vector<Part> parts_;
  std::uint64_t elements_ = 0;
  records::ValueBuffer<std::byte> values_;      ///< Numbers, or what strings hold.
  records::ValueBuffer<std::int32_t> offsets_;  ///< Of strings: their ends.
};

}  // namespace tfos::inference

#endif  // TFOS_INFERENCE_OUTPUT_COLUMN_H_
